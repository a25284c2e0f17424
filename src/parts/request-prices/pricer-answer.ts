import { parse } from "lossless-json";
import * as z from "zod";
import { parseDollars } from "../../core/amounts.ts";
import { GatewayError } from "../../core/errors.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";

/** Most bytes of a response that are read. */
export const MAX_ANSWER_BYTES = 16 * 1024;

/** Statuses by which a pricer refuses a request. Other statuses are about payments, credentials or a retry. */
const REFUSAL_STATUSES: ReadonlySet<unknown> = new Set([400, 403, 404, 410, 413, 415, 422, 451]);

const plainText = (most: number) => z.string().regex(new RegExp(`^\\P{Cc}{1,${most}}$`, "u"));

const answerSchema = z.union([
  z.strictObject({
    price: z.string().transform((text, context) => {
      const price = parseDollars(text);
      if (price !== undefined) return price.amount;
      context.addIssue({ code: "custom" });
      return z.NEVER;
    }),
    description: plainText(200).optional(),
  }),
  z.strictObject({
    refuse: z.strictObject({
      status: z.number().refine((status) => REFUSAL_STATUSES.has(status)),
      error: plainText(500),
    }),
  }),
]);

/** Response of a pricer, or the problem with the response. */
export type PricerAnswer =
  /** Price in 10^-18 dollars. */
  | { readonly kind: "price"; readonly price: bigint; readonly description: string | undefined }
  | { readonly kind: "refusal"; readonly refusal: GatewayError }
  | { readonly kind: "none"; readonly problem: string };

/** Reads a pricer's response. @param max highest price, in 10^-18 dollars */
export function readPricerAnswer(outcome: HttpOutcome | undefined, max: bigint): PricerAnswer {
  if (outcome?.kind !== "answered") return none(outcome?.reason ?? "the request was given up");
  const { status, body, isCut } = outcome.answer;
  if (status !== 200) return none(`it answered ${status}`);
  if (isCut) return none(`its answer has more than ${MAX_ANSWER_BYTES} bytes`);
  const { data } = answerSchema.safeParse(jsonIn(body));
  if (data === undefined) return none("its answer is neither a price nor a refusal");
  if ("refuse" in data) {
    const { status: told, error } = data.refuse;
    const sentence = `${error}${/[.!?]$/.test(error) ? "" : "."} Nothing was charged.`;
    return { kind: "refusal", refusal: new GatewayError("price_refused", sentence, { status: told }) };
  }
  if (data.price > max) return none("its price is above max");
  return { kind: "price", ...data, description: data.description };
}

/** Returns the JSON value of a body; undefined if the body is not JSON in UTF-8, or has a key twice. */
function jsonIn(body: Uint8Array): unknown {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    return parse(text, undefined, { parseNumber: Number, onDuplicateKey: refuse });
  } catch {
    return undefined;
  }
}

function refuse({ key }: { readonly key: string }): never {
  throw new SyntaxError(`${key} is there twice`);
}

function none(problem: string): PricerAnswer {
  return { kind: "none", problem };
}
