import { useRef } from "preact/hooks";
import { CallState, type GetCallResponse } from "../../../gen/jobgate/v1/operator_pb.ts";
import { client, useAction } from "../../../page/tools/client.ts";
import { Problem, useConfirm } from "../../../page/tools/controls.tsx";
import { CallLink } from "../../../page/tools/format.tsx";
import { open, type PartView } from "../../../page/tools/route.ts";

/** States in which the body of a JobCall is kept, and no payment is awaited. */
const RESENDABLE: readonly CallState[] = [CallState.READY, CallState.LEASED, CallState.DEAD];

/** Name of the metadata with the call ID of the first JobCall, which jobgate alone gives a call of origin `operator`. */
const RESENT_CALL_METADATA = "X-OPERATOR-RESENT-CALL-ID";

/** Reads the call that a call of the operator repeats. */
function firstCall(origin: string, value = ""): bigint | undefined {
  return origin === "operator" && /^\d{1,16}$/.test(value) ? BigInt(value) : undefined;
}

const QUESTION =
  "Its job gets a new call with the same body and metadata, whatever becomes of this one. The new call is not charged, and no client gets its result.";

/** Sends the JobCall to its job once more, after a question. */
function ResendPanel({ call, metadata }: GetCallResponse) {
  const { run, problem } = useAction();
  const [ask, dialog] = useConfirm();
  // The key stays until an answer arrives, so that a repeated request makes no second call.
  const requestKey = useRef<string>();
  if (call === undefined || call.state === CallState.HELD) return null;
  const { callId } = call;
  const first = firstCall(call.origin, metadata[RESENT_CALL_METADATA]);
  const isKept = RESENDABLE.includes(call.state);
  const resend = () =>
    ask({
      ...{ title: `Resend call ${callId}?`, text: QUESTION, action: "Resend it", isSigned: true },
      onAgree: (signature) =>
        void run(async () => {
          requestKey.current ??= newKey();
          const answer = await client.resendCall({ callId, requestKey: requestKey.current, ...signature });
          requestKey.current = undefined;
          open(`calls/${answer.callId}`, {});
          return `Call ${callId} was resent as call ${answer.callId}.`;
        }),
    });
  return (
    <section class="panel" aria-labelledby="resend">
      <div class="panel-head">
        <h2 id="resend">Resending</h2>
        {isKept && (
          <button type="button" onClick={resend}>
            Resend
          </button>
        )}
      </div>
      <Problem text={problem} />
      {first !== undefined && (
        <p>
          This call repeats call <CallLink callId={first} />.
        </p>
      )}
      <p class="muted">
        {isKept
          ? "A new, unpaid call. This call and its payment stay as they are."
          : "This call has ended, and its body is not kept: it cannot be resent."}
      </p>
      {dialog}
    </section>
  );
}

/** Makes a random key. Browsers have no randomUUID() on pages without TLS. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join("-");
}

export const VIEW: PartView = { path: "resend", BelowCall: ResendPanel };
