import { isLosslessNumber, parse } from "lossless-json";
import { splitCredentials } from "../../chain/basic-auth.ts";
import type { Clock } from "../../core/clock.ts";
import { BodyTooLarge, readBoundedBody } from "../../http/response.ts";
import { type AskRate, RateProblem } from "./rate.ts";

const MAX_ANSWER_BYTES = 1_048_576;
/** Most digits of a rate. Without a bound, a few bytes of exponent could stand for gigabytes of zeros. */
const MAX_DIGITS = 100;

/**
 * Source that requests JSON from a URL. The value's age counts from the request, because the answer need not name a time.
 * @param source `url` may hold credentials; `pointer` is RFC 6901; `timeoutMs` is for the whole answer
 */
export function createHttpRate(source: {
  readonly url: string;
  readonly pointer: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
}): AskRate {
  const { url, pointer, timeoutMs, clock } = source;
  const target = splitCredentials(url);

  /** Follows no redirect, because the target would set the prices. */
  async function get(): Promise<Buffer> {
    const response = await fetch(target.url, {
      headers: { ...target.headers, accept: "application/json" },
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (response.status === 200) return readBoundedBody(response, MAX_ANSWER_BYTES);
    await response.body?.cancel();
    throw new RateProblem("url", `it answers with status ${response.status}; expected 200`);
  }

  return async () => {
    const asOf = clock();
    const body = await get().catch((error: unknown) => {
      throw error instanceof RateProblem ? error : new RateProblem("url", noAnswer(error, timeoutMs), error);
    });
    const value = valueAt(parseJson(body), pointer);
    if (value === undefined) throw new RateProblem("pointer", "its answer has nothing at the pointer");
    const number = isLosslessNumber(value) ? value.value : value;
    const ratePerNativeUnit = typeof number === "string" ? plainDecimal(number) : undefined;
    if (ratePerNativeUnit === undefined) {
      throw new RateProblem(
        "pointer",
        "the value at the pointer in its answer is not a rate; expected a number above 0, of at most 100 digits",
      );
    }
    return { ratePerNativeUnit, asOf };
  };
}

function parseJson(body: Buffer): unknown {
  try {
    return parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new RateProblem("url", "it answers with something else than JSON");
  }
}

function noAnswer(error: unknown, timeoutMs: number): string {
  if (error instanceof BodyTooLarge) return "its answer is larger than 1 MiB";
  if (error instanceof Error && error.name === "TimeoutError") {
    return `it does not answer within ${timeoutMs / 1000} s`;
  }
  return "it does not answer";
}

/**
 * Returns the value at a JSON pointer (RFC 6901) in a document that lossless-json parsed; undefined when there is none.
 * @param pointer valid, because the configuration has checked it
 */
function valueAt(document: unknown, pointer: string): unknown {
  let value = document;
  for (const escaped of pointer.split("/").slice(1)) {
    const token = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || isLosslessNumber(value)) return undefined;
    // An array's own `length` is not part of the document.
    if (!Object.hasOwn(value, token) || (Array.isArray(value) && token === "length")) return undefined;
    value = (value as Record<string, unknown>)[token];
  }
  return value;
}

/**
 * Writes a number above 0 as in JSON, such as `3.2e3`, as a decimal string without exponent and without losing a digit.
 * @returns undefined for anything else, and for more than {@link MAX_DIGITS} digits
 */
function plainDecimal(text: string): string | undefined {
  const match = /^(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (match === null) return undefined;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (!/[1-9]/.test(digits) || Math.max(digits.length, point, digits.length - point) > MAX_DIGITS) {
    return undefined;
  }
  const before = digits.slice(0, Math.max(0, point)).padEnd(point, "0").replace(/^0+/, "");
  const after = digits
    .slice(Math.max(0, point))
    .padStart(digits.length - point, "0")
    .replace(/0+$/, "");
  return `${before === "" ? "0" : before}${after === "" ? "" : `.${after}`}`;
}
