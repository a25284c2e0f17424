import type { Command } from "commander";
import {
  callOperator,
  durationFromMs,
  type GetActivityResponse,
  type GetInfoResponse,
  type GetRevenueResponse,
  type GetTotalsResponse,
  jsonLine,
  type ListEndpointsResponse,
  type ListHoldingsResponse,
  type ListRunnersResponse,
  type ListUntakenJobsResponse,
  type Timestamp,
  timestampMs,
} from "../../../commands/operator-client.ts";
import { addOperatorCommand, jsonOption } from "../../../commands/options.ts";
import { counted, durationText, fields, type PrintOptions, programName } from "../../../commands/output.ts";
import { totalsTexts } from "../../../commands/part-text.ts";
import { decimalText } from "../../../core/amounts.ts";

export function addTo(program: Command): void {
  addOperatorCommand(program, {
    name: "status",
    description: "Show in one screen how a running jobgate does, and what needs you.",
    example: "status",
    takes: [jsonOption()],
  }).action(status);
}

const DAY_MS = 86_400_000;
/** Bucket in which a whole day of revenue lies. */
const ONE_BUCKET = durationFromMs(10_000 * DAY_MS);

async function status(options: PrintOptions): Promise<void> {
  const answers = await callOperator(options, (client) =>
    Promise.all([
      client.getInfo({}),
      client.getTotals({}),
      client.listRunners({}),
      client.listUntakenJobs({}),
      client.getActivity({ bucket: durationFromMs(DAY_MS) }),
      client.getRevenue({ bucket: ONE_BUCKET }),
      client.listEndpoints({}),
      client.listHoldings({}),
    ]),
  );
  if (options.json) for (const answer of answers) console.log(jsonLine(answer));
  else console.log(statusText(...answers, Date.now()));
}

function statusText(
  { version, startedAt, listeners, store }: GetInfoResponse,
  totals: GetTotalsResponse,
  { runners }: ListRunnersResponse,
  { jobs: untaken }: ListUntakenJobsResponse,
  { activity }: GetActivityResponse,
  { revenue }: GetRevenueResponse,
  { endpoints }: ListEndpointsResponse,
  { holdings }: ListHoldingsResponse,
  now: number,
): string {
  const { payments, calls, paidCalls, oldestReadyAt } = totals;
  const since = (time: Timestamp | undefined) => (time === undefined ? 0 : now - timestampMs(time));
  const inFlight = runners.reduce((sum, runner) => sum + runner.inFlight, 0);
  const oldest = oldestReadyAt === undefined ? "" : `, the oldest for ${durationText(since(oldestReadyAt))}`;
  const did = (kind: "accepted" | "acked" | "retried" | "deadLettered" | "refused") =>
    activity.reduce((sum, bucket) => sum + bucket[kind], 0n);
  const runs = since(startedAt);
  const [needs = "nothing", ...more] = problems(store, totals, untaken, holdings);
  return fields([
    ["jobgate", `${version}, up for ${durationText(runs)}`],
    ["needs you", needs],
    ...more.map((problem): [string, string] => ["", problem]),
    ["places", `${store?.pending ?? 0n} of ${store?.maxPending ?? 0n} taken`],
    ["queue", `${calls?.ready ?? 0n} waiting${oldest}; ${calls?.leased ?? 0n} running`],
    ["runners", `${runners.length} connected, ${counted(inFlight, "job")} in flight`],
    [
      runs < DAY_MS ? "since start" : "last 24 h",
      [
        `${counted(did("accepted"), "job")} accepted, ${did("acked")} done, ${did("retried")} retried`,
        `${counted(did("deadLettered"), "dead letter")}, ${counted(did("refused"), "HTTP request")} refused`,
      ].join(", "),
    ],
    ["refused at", refusalsText(endpoints)],
    ["sold in 24 h", revenue.length === 0 ? "nothing" : `${salesText(revenue)}, before refunds and fees`],
    [
      "paid jobs",
      `${payments?.settled ?? 0n} in all, ${paidCalls?.done ?? 0n} done; ${counted(payments?.intent ?? 0n, "payment")} being settled`,
    ],
    ["prices shown", conversionText(endpoints)],
    ...listeners.map(({ name, address }): [string, string] => [`${name} listener`, address]),
  ]);
}

/** Amounts by token, the token with the most payments first. */
function salesText(revenue: GetRevenueResponse["revenue"]): string {
  return revenue
    .toSorted((one, other) => Number(other.payments - one.payments))
    .map(({ amountText, payments }) => `${amountText} in ${counted(payments, "payment")}`)
    .join(", ");
}

/** Most jobs and endpoints whose refusals are shown. */
const MAX_REFUSING = 5;

/**
 * Numbers of requests that this process has refused since its start, by job and webhook endpoint, the highest number
 * first. Empty if there are none.
 */
export function refusalsText(
  endpoints: readonly (Pick<ListEndpointsResponse["endpoints"][number], "path" | "origin" | "name"> & {
    readonly refusals: readonly { readonly code: string; readonly count: bigint }[];
  })[],
): string {
  const counts = endpoints.map(({ path, origin, name, refusals }) => ({
    shown: origin === "webhook" ? path : name || path,
    count: refusals.reduce((sum, one) => sum + one.count, 0n),
    codes: refusals.map(({ code, count }) => `${count} ${code}`).join(", "),
  }));
  const refusing = counts.filter(({ count }) => count > 0n).sort((a, b) => Number(b.count - a.count));
  const more = refusing.length - MAX_REFUSING;
  return [
    ...refusing.slice(0, MAX_REFUSING).map(({ shown, codes }) => `${shown} (${codes})`),
    ...(more > 0 ? [`${counted(more, "other")}`] : []),
  ].join(", ");
}

/** Share of this process's 402 answers that were paid; empty before the first 402. */
export function conversionText(
  endpoints: readonly Pick<ListEndpointsResponse["endpoints"][number], "origin" | "offers" | "accepted">[],
): string {
  const jobs = endpoints.filter(({ origin }) => origin === "x402");
  const sum = (of: "offers" | "accepted") => jobs.reduce((total, job) => total + job[of], 0n);
  const [offers, accepted] = [sum("offers"), sum("accepted")];
  if (offers === 0n) return "";
  const share = ((100 * Number(accepted)) / Number(offers)).toFixed(1);
  return `${offers} since start, ${counted(accepted, "job")} bought (${share} %)`;
}

/** Returns the problems that need an operator, the worst first, with the command that shows each. */
function problems(
  store: GetInfoResponse["store"],
  totals: GetTotalsResponse,
  untaken: ListUntakenJobsResponse["jobs"],
  holdings: ListHoldingsResponse["holdings"],
): string[] {
  const { balanced, payments, calls } = totals;
  const jobgate = programName();
  const found: string[] = [];
  if (!balanced) found.push("THE JOURNAL DOES NOT BALANCE: this is a fault in jobgate; please report it");
  if (store?.writable !== true) found.push(`THE STORE IS NOT WRITABLE: ${store?.reason ?? "unknown"}`);
  if (store?.full === true) found.push("the queue is full: requests are refused until runners catch up");
  const [unresolved, dead] = [payments?.unresolved ?? 0n, calls?.dead ?? 0n];
  if (unresolved > 0n)
    found.push(`${counted(unresolved, "unresolved payment")}: ${jobgate} payments list --state unresolved`);
  for (const { isShort, pays, account, network, amount, decimals, symbol } of holdings) {
    if (!isShort) continue;
    const held = decimalText(BigInt(amount), decimals);
    found.push(
      `account ${account}, which pays ${pays} on ${network}, has only ${held} ${symbol}: send it more`,
    );
  }
  found.push(...totalsTexts(totals, "problems"));
  if (dead > 0n) found.push(`${counted(dead, "dead letter")}: ${jobgate} dead-letters groups`);
  for (const { origin, serviceId, jobId, name, calls } of untaken) {
    const job = `${serviceId}/${jobId}`;
    const [waits, them] = calls === 1n ? ["waits", "it"] : ["wait", "them"];
    found.push(
      `${counted(calls, "job")} of ${name || `${origin} ${job}`} ${waits}, and no runner that is connected here takes ${them}: ${jobgate} jobs list --state ready --job ${job}`,
    );
  }
  return found;
}
