import { useState } from "preact/hooks";
import type { GetCallContentResponse, GetCallResponse } from "../../../gen/jobgate/v1/operator_pb.ts";
import { client, useAction, useConfiguration } from "../../../page/tools/client.ts";
import { Problem } from "../../../page/tools/controls.tsx";
import { Facts } from "../../../page/tools/format.tsx";
import type { PartView } from "../../../page/tools/route.ts";

/**
 * Body and result of a JobCall. The page requests them only when the operator presses a button, because jobgate logs each
 * access.
 */
function ContentPanel({ call }: GetCallResponse) {
  const { data } = useConfiguration();
  const operator = data?.configuration?.operator as { readonly show_bodies?: boolean } | undefined;
  const [content, setContent] = useState<GetCallContentResponse>();
  const { run, problem } = useAction();
  if (call === undefined || operator?.show_bodies !== true) return null;
  const { callId } = call;
  const show = () =>
    void run(async () => {
      setContent(await client.getCallContent({ callId }));
      return `Body and result of call ${callId} are shown.`;
    });
  return (
    <section class="panel" aria-labelledby="content">
      <div class="panel-head">
        <h2 id="content">Body and result</h2>
        <button type="button" onClick={show}>
          {content === undefined ? "Show" : "Show again"}
        </button>
      </div>
      <Problem text={problem} />
      {content === undefined ? <p class="muted">jobgate logs each look.</p> : <Content {...content} />}
    </section>
  );
}

function Content(content: GetCallContentResponse) {
  const { body, bodyBytes, result, resultBytes, contentType, status, headers } = content;
  return (
    <>
      <Bytes name="Body of the request" bytes={body} size={bodyBytes} />
      <Bytes name="Result" bytes={result} size={resultBytes} />
      <Facts
        facts={[
          ...(contentType ? [["Content type", contentType] as const] : []),
          ...(status > 0 ? [["Status", status] as const] : []),
          ...headers.map(({ name, value }) => [name, <span class="mono">{value}</span>] as const),
        ]}
      />
    </>
  );
}

/** Shows bytes from outside as text, and never as markup. */
function Bytes({ name, bytes, size }: { name: string; bytes: Uint8Array | undefined; size: bigint }) {
  if (bytes === undefined) return <p class="muted">{name}: not kept</p>;
  const isCut = BigInt(bytes.length) < size;
  return (
    <>
      <h3>
        {name}{" "}
        <span class="muted">{isCut ? `the first ${bytes.length} of ${size} bytes` : `${size} bytes`}</span>
      </h3>
      <pre tabIndex={0} role="region" aria-label={name}>
        {textOf(bytes)}
      </pre>
    </>
  );
}

function textOf(bytes: Uint8Array): string {
  if (bytes.length === 0) return "(empty)";
  try {
    // The shown part can end in the middle of a character.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return "This is not text.";
  }
}

export const VIEW: PartView = { path: "content", BelowCall: ContentPanel };
