import { isLosslessNumber, parse } from "lossless-json";
import { splitCredentials } from "../../chain/basic-auth.ts";
import type { Clock } from "../../core/clock.ts";
import { BodyTooLarge, readBoundedBody } from "../../http/response.ts";
import { valueAt } from "./json-pointer.ts";
import { type AskRate, RateProblem } from "./live-value.ts";
import { plainDecimal } from "./plain-decimal.ts";

export interface HttpRateOptions {
  /** May hold credentials. */
  readonly url: string;
  /** RFC 6901. */
  readonly pointer: string;
  /** For the whole answer. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

const MAX_ANSWER_BYTES = 1_048_576;

/** Asks a URL that answers with JSON. The value is as old as the question, since the answer may say nothing of it. */
export function createHttpRate({ url, pointer, timeoutMs, clock }: HttpRateOptions): AskRate {
  const target = splitCredentials(url);

  /** Redirects are refused: whoever is redirected to would set the prices. */
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
      throw error instanceof RateProblem ? error : new RateProblem("url", noAnswer(error, timeoutMs));
    });
    const value = valueAt(parseJson(body), pointer);
    if (value === undefined) throw new RateProblem("pointer", "its answer has nothing at the pointer");
    const number = isLosslessNumber(value) ? value.value : value;
    const ratePerNativeUnit = typeof number === "string" ? plainDecimal(number) : undefined;
    if (ratePerNativeUnit === undefined) {
      throw new RateProblem(
        "pointer",
        "what its answer has at the pointer is no rate; expected a number above 0, of at most 100 digits",
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
