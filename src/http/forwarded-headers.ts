import { isUtf8 } from "node:buffer";
import { GatewayError } from "../core/errors.ts";
import type { JobCall } from "../core/job-call.ts";
import { ALL_HEADERS, BOUND_HEADERS, namesIn } from "../core/request-headers.ts";
import type { JobRequest } from "./request.ts";

type Metadata = NonNullable<JobCall["requestMetadata"]>;

/** Longest value that is forwarded. A runner that gets it as an HTTP header or an environment variable has limits too. */
const MAX_VALUE_BYTES = 4 * 1024;
/** Prefix of the metadata that a request makes. No other metadata of jobgate has it, so no header can pass for that. */
const PREFIX = "X-HTTP-";
/** Forwarded with every JobCall: without it, a body cannot be read. */
const CONTENT_TYPE = "content-type";

/** Headers that choose the form of an answer: a request that is sent again may have others, and gets the stored answer so. */
const OF_ANSWER: ReadonlySet<string> = new Set(["if-none-match", "if-range", "range"]);

/** Headers of a request that its runner gets as metadata: `X-HTTP-` and the name in upper case. */
export class ForwardedHeaders {
  /** Names that a payment is bound to: sorted, with `content-type`, lower case. */
  readonly names: readonly string[];
  readonly #list: readonly string[];
  readonly #areBytes: boolean;

  /**
   * @param names besides `Content-Type`, lower case; `*` stands for all
   * @param options `priced`: further names, on whose values the price depends; `areBytes`: a value has one character for each byte that was sent, and not the text that the bytes are
   */
  constructor(
    names: Iterable<string> = [],
    {
      priced = [],
      areBytes = false,
    }: { readonly priced?: readonly string[]; readonly areBytes?: boolean } = {},
  ) {
    this.#areBytes = areBytes;
    const listed = [CONTENT_TYPE, ...names];
    this.#list = [...new Set([...listed, ...priced])];
    const bound = listed.flatMap((name) => (name === ALL_HEADERS ? BOUND_HEADERS : name));
    this.names = [...new Set([...bound.filter((name) => !OF_ANSWER.has(name)), ...priced])].sort();
  }

  /** Reads those that were sent. @throws GatewayError `headers_too_large` */
  read(request: Pick<JobRequest, "headerValues" | "headers">): Metadata {
    const metadata: [name: string, value: string][] = [];
    for (const name of namesIn(this.#list, request.headers)) {
      const lines = request.headerValues(name);
      if (lines.length === 0) continue;
      const value = joined(name, lines);
      metadata.push([`${PREFIX}${name.toUpperCase()}`, this.#areBytes ? value : decode(value)]);
    }
    return metadata;
  }
}

/** Joins the lines of a header as HTTP does (RFC 9110 §5.3). */
function joined(name: string, lines: readonly string[]): string {
  const value = lines.join(", ");
  requireForwardable(`The header ${name}`, value);
  return value;
}

/** @throws GatewayError `headers_too_large` for a part of a request that is too long for its runner */
export function requireForwardable(what: string, value: string, maxBytes = MAX_VALUE_BYTES): void {
  if (value.length <= maxBytes) return;
  throw new GatewayError(
    "headers_too_large",
    `${what} goes to the job's runner, so it can have at most ${maxBytes} bytes.`,
  );
}

/** Any character that a header can hold and ASCII lacks. Node reads each byte as one Latin-1 character. */
const NOT_ASCII = /[\x80-\xff]/;

/** Decodes a value as UTF-8 if it is, else as Latin-1, which every value is: senders use both. */
function decode(value: string): string {
  if (!NOT_ASCII.test(value)) return value;
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString() : value;
}
