import { printable } from "../../core/printable.ts";
import { jsonOf } from "./buyer.ts";
import type { KnownTokens } from "./known-tokens.ts";

/* Facts that a seller publishes in addition to the answer to a purchase. The buyer does not need them, and does not wait
   long for them. */

const TIMEOUT_MS = 10_000;
const MAX_JOBS = 20;

/** Says how to name a job of the seller at a URL that is not a job, and which jobs the seller lists. */
export async function howToNameJob(url: string): Promise<string[]> {
  const { origin } = new URL(url);
  const expected = `expected the URL of a job, such as ${origin}/x402/jobs/SERVICE/JOB`;
  const { jobs } = await getJson(`${origin}/x402/jobs`);
  if (!Array.isArray(jobs) || jobs.length === 0) return [`${url} is not a job; ${expected}`];
  const lines = (jobs as readonly unknown[]).flatMap(jobLine);
  const more =
    lines.length > MAX_JOBS ? [`… and ${lines.length - MAX_JOBS} more at ${origin}/x402/jobs`] : [];
  return [`${url} is not a job; ${expected}. ${origin} sells:`, ...lines.slice(0, MAX_JOBS), ...more];
}

function jobLine(job: unknown): string[] {
  const { x402_endpoint: endpoint, name, title } = (job ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof endpoint !== "string") return [];
  const label = [title, name].find((text) => typeof text === "string");
  return [printable(label === undefined ? `  ${endpoint}` : `  ${endpoint}  ${label as string}`)];
}

/** Money of a call, as its seller shows it to the buyer. */
export interface CallMoney {
  /** Charge of a job that is charged after it ran. */
  readonly charge?: Charge;
  /** Refund for a job that failed. */
  readonly refund?: Refund;
}

/** Reads what a call was charged and what is refunded. @returns nothing of a call that the seller does not show */
export async function readMoney(
  receiptUrl: string,
  headers: Readonly<Record<string, string>>,
): Promise<CallMoney> {
  const { charge, refund } = await getJson(receiptUrl, headers);
  return { ...(isMoney(charge) && { charge }), ...(isMoney(refund) && { refund }) };
}

/** Says what a job was charged after it ran. @returns an empty text for a charge that is not decided */
export function chargeText({ charge }: CallMoney, tokens: KnownTokens): string {
  if (charge === undefined) return "";
  const amount = printable(tokens.text(charge));
  const { moved } = charge;
  if (isMoved(moved)) {
    const taken = tokens.text({ ...charge, amount: moved.amount });
    return printable(`nothing for this job, but transaction ${moved.transaction} took ${taken}`);
  }
  switch (charge.state) {
    case "settled":
      return amount;
    case "released":
      return "nothing for this job";
    case "failed":
      return `nothing for this job: the charge of ${amount} failed`;
    default:
      return "";
  }
}

/** Returns the money of a call with its amounts as text, for people who read JSON. */
export function moneyJson({ charge, refund }: CallMoney, tokens: KnownTokens) {
  return {
    ...(charge && { charge: { ...charge, amount_text: tokens.text(charge) } }),
    ...(refund && { refund: { ...refund, amount_text: tokens.text(refund) } }),
  };
}

/** Says what becomes of the money for a job that failed; nothing if the seller owes no refund. */
export function failureLines({ refund }: CallMoney, receiptUrl: string, tokens: KnownTokens): string[] {
  return refund === undefined ? [] : [printable(refundText(refund, receiptUrl, tokens))];
}

function refundText(refund: Refund, receiptUrl: string, tokens: KnownTokens): string {
  const amount = tokens.text(refund);
  switch (refund.state) {
    case "owed":
      return `A refund of ${amount} is owed; ${receiptUrl} shows when the seller has sent it`;
    case "sending":
      return `A refund of ${amount} is on its way; ${receiptUrl} shows its transaction`;
    case "refunded":
      return `${amount} was sent back by transaction ${refund.transaction ?? "unknown"}`;
    case "refund_failed":
      return `The refund of ${amount} failed: ${refund.reason ?? "no reason is given"}`;
    default:
      return `The refund of ${amount} is ${refund.state}`;
  }
}

interface Charge {
  readonly state: string;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly amount: string;
  readonly transaction?: string;
  /** Money that moved under the authorization without a charge for the job. */
  readonly moved?: unknown;
}

interface Refund extends Charge {
  readonly reason?: string;
}

function isMoney(value: unknown): value is Charge {
  const money = (value ?? {}) as Readonly<Record<string, unknown>>;
  return (
    ["state", "network", "asset", "symbol"].every((key) => typeof money[key] === "string") &&
    /^[0-9]+$/.test(String(money.amount))
  );
}

function isMoved(value: unknown): value is { readonly amount: string; readonly transaction: string } {
  const { amount, transaction } = (value ?? {}) as Readonly<Record<string, unknown>>;
  return /^[0-9]+$/.test(String(amount)) && typeof transaction === "string";
}

/** Returns the fields of a JSON document; none if the document cannot be fetched. */
async function getJson(
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<ReturnType<typeof jsonOf>> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(url, {
      headers: { accept: "application/json", ...headers },
      redirect: "error",
      signal,
    });
    return response.ok ? jsonOf(Buffer.from(await response.arrayBuffer())) : {};
  } catch {
    return {};
  }
}
