import { describe, expect, it } from "vitest";
import { type JobCall, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { AUTHORIZATION_ENDED } from "../../src/store/rules/charges.ts";
import { accounts } from "../helpers/accounts.ts";
import { type Runner, startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { expectBalance } from "./ledger.ts";
import {
  askForCall,
  authorize,
  decided,
  offerMetered,
  startMeteredGateway,
  startMeteredParts,
} from "./metered.ts";
import type { Answer } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const { payTo } = accounts;
/** Time before the end at which a job that runs is charged. The facilitator needs more than 6 s. */
const MARGIN_SECS = 10;
/** Validity of an authorization that ends soon. */
const SECS = MARGIN_SECS + 4;

const parts = startBeforeAll(startMeteredParts);
const gateway = startBeforeAll(() =>
  startMeteredGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) =>
      config
        .replace("[x402]\n", `[x402]\nsettle_margin_secs = ${MARGIN_SECS}\n`)
        .replace("[runner]\n", "[runner]\nmax_attempts = 2\n")
        .replace("max_run_secs = 120", 'max_run_secs = 2\nmin_charge = "10%"'),
  }),
);

const received = () => parts.usdc.balanceOf(payTo.address);
const named = ({ callId, leaseToken }: JobCall) => ({ callId, leaseToken });
const units = (value: bigint) => ({ amount: { case: "units", value: String(value) } }) as const;

/** Buys with an authorization that ends soon; a runner that leaves JobCalls alone takes the job. */
async function takenJob(body: string): Promise<{ bought: Answer; call: JobCall; runner: Runner }> {
  await gateway.stopRunner();
  const runner = await startRunner({ address: gateway.jobgate.runnerAddress, handle: "leave" });
  const bought = await gateway.send(await authorize(gateway, { secs: SECS }), { body });
  const [call] = await runner.waitFor(1);
  return { bought, call: call as JobCall, runner };
}

const chargeOf = async (bought: Answer) => (await askForCall(gateway, bought)).charge;

describe("A runner that never acks", () => {
  it("And keeps the job is charged for what it reported when the authorization ends, once, and may go on", async () => {
    const before = await received();
    const { bought, call, runner } = await takenJob("goes on");
    const report = await runner.extend({ leases: [{ ...named(call), chargeSoFar: units(AMOUNT / 2n) }] });
    expect(report.statuses).toEqual([LeaseStatus.DONE]);
    const settled = { state: "settled", amount: String(AMOUNT / 2n) };
    await expect.poll(() => chargeOf(bought)).toMatchObject(settled);
    expect(await askForCall(gateway, bought)).toMatchObject({ state: "running", result: { status: 404 } });
    expect(await received()).toBe(before + AMOUNT / 2n);

    const result = { body: Buffer.from("late"), contentType: "text/plain" };
    const acked = await runner.ack({ acks: [{ ...named(call), result, charge: units(AMOUNT) }] });
    expect(acked.statuses).toEqual([LeaseStatus.DONE]);
    expect(await askForCall(gateway, bought)).toMatchObject({
      state: "succeeded",
      charge: settled,
      result: { status: 200, text: "late" },
    });
    expect(await received()).toBe(before + AMOUNT / 2n);
    runner.kill();
    await expectBalance(gateway);
  });

  it("And reports nothing is charged the least charge, before the authorization ends", async () => {
    const before = await received();
    const { bought, call, runner } = await takenJob("reports nothing");
    await expect
      .poll(() => chargeOf(bought))
      .toMatchObject({ state: "settled", amount: String(AMOUNT / 10n) });
    expect((await runner.ack({ acks: [named(call)] })).statuses).toEqual([LeaseStatus.DONE]);
    expect(await askForCall(gateway, bought)).toMatchObject({
      state: "succeeded",
      charge: { state: "settled", amount: String(AMOUNT / 10n) },
    });
    expect(await received()).toBe(before + AMOUNT / 10n);
    runner.kill();
    await expectBalance(gateway);
  });

  it("And loses the job each time makes it a dead letter, which is charged nothing", async () => {
    const before = await received();
    await gateway.stopRunner();
    const runner = await startRunner({ address: gateway.jobgate.runnerAddress, handle: "leave" });
    const bought = await gateway.send(await authorize(gateway), { body: "lost twice" });
    for (const count of [1, 2]) {
      const call = (await runner.waitFor(count))[count - 1] as JobCall;
      await runner.extend({ leases: [named(call)], lease: { seconds: 1n } });
    }
    expect(await decided(gateway, bought)).toMatchObject({
      state: "failed",
      reason: "max_attempts",
      charge: { state: "released", amount: "0" },
      result: { status: 410 },
    });
    expect(await received()).toBe(before);
    runner.kill();
    await expectBalance(gateway);
  });

  it("Because there is none: when the authorization ends, the job is a dead letter and charged nothing", async () => {
    const before = await received();
    await gateway.stopRunner();
    await offerMetered(gateway);
    const bought = await gateway.send(await authorize(gateway, { secs: SECS }), { body: "no runner" });
    expect(bought.status).toBe(202);
    expect(await decided(gateway, bought)).toMatchObject({
      state: "failed",
      reason: AUTHORIZATION_ENDED,
      charge: { state: "released", amount: "0" },
      result: { status: 410 },
    });
    await gateway.replaceRunner();
    expect(gateway.jobsWith("no runner")).toEqual([]);
    expect(await received()).toBe(before);
    await expectBalance(gateway);
  });
});
