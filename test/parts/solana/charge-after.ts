import { expect } from "vitest";
import { until } from "../../helpers/until.ts";
import { type Answer, PRICE, type SolanaParts } from "./harness.ts";
import { settledHere } from "./own-settlement.ts";
import { startRestartedShop } from "./restarted-shop.ts";

/** Index of a job that is charged after it ran. */
export const AFTER = 2;
/** The table of this job. */
export const AFTER_TABLE = `
[[jobs]]
job_index = ${AFTER}
mode = "public_paid"
price = "$0.01"
charge = "after"
max_run_secs = 20
`;

/** Returns the state of a call's charge, as its buyer sees it at a gateway. */
export async function chargeOf(
  x402Url: string,
  { call_id, access_token }: Answer,
): Promise<string | undefined> {
  const headers = { authorization: `Bearer ${access_token}` };
  const response = await fetch(`${x402Url}/x402/calls/${call_id}`, { headers });
  return ((await response.json()) as { readonly charge?: { readonly state: string } }).charge?.state;
}

/** Kills a jobgate between a job and its charge, and checks that the job is charged once after the restart. */
export async function expectChargedOnce(
  parts: SolanaParts,
  { crashAt, isSettledHere = false }: { readonly crashAt: string; readonly isSettledHere?: boolean },
): Promise<void> {
  const { cluster, seller, mint } = parts;
  const edit = (config: string) => {
    // A job that was out at the kill is delivered again before its payment ends.
    const leased = config.replace("[runner]", "[runner]\nlease_secs = 1");
    return isSettledHere ? settledHere(leased, parts) : leased;
  };
  const restarted = await startRestartedShop(parts, { crashAt, edit, more: AFTER_TABLE });
  const { shop, life } = restarted;
  const before = (await cluster.balanceOf(seller, mint)) ?? 0n;
  const landed = cluster.landed.length;
  const payment = await shop.sign(undefined, undefined, AFTER);
  const send = () => shop.send(payment, { job: AFTER }).catch(() => undefined);
  await send();
  expect(await life.exited).toEqual({ code: null, signal: "SIGKILL" });

  await restarted.startAgain();
  const bought = await until(async () => {
    const answer = await send();
    return answer?.status === 202 && answer;
  });
  await expect.poll(() => chargeOf(shop.jobgate.x402Url, bought)).toBe("settled");
  expect(cluster.landed.length).toBe(landed + 1);
  expect(await cluster.balanceOf(seller, mint)).toBe(before + PRICE);
  const jobs = restarted.runners.flatMap(({ calls }) => calls.map(({ callId }) => Number(callId)));
  expect(new Set(jobs)).toEqual(new Set([bought.call_id]));
}
