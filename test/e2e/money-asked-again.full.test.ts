import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import type { Fault } from "../helpers/fault.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, FAILED, UNDECIDED } from "./expected-answers.ts";
import { paidJobs, watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url" }));
afterEach(() => gateway.facilitatorProxy.clear());

const MISTAKES: Readonly<Record<string, Fault>> = {
  "a mistaken no": {
    kind: "answer",
    status: 200,
    body: {
      success: false,
      errorReason: "unexpected_settle_error",
      transaction: "",
      network: "eip155:84532",
    },
  },
  "status 500": { kind: "answer", status: 500, body: "" },
};

describe("Undecided, with one facilitator and rpc_url", { timeout: 120_000 }, () => {
  it.each(Object.entries(MISTAKES))(
    "%s, then resends → paid once, one job, within 20 s",
    async (what, fault) => {
      const payment = await gateway.sign();
      const expectChanges = await watchLedger(parts, gateway);
      gateway.facilitatorProxy.add({ path: "/settle", times: 1, fault });
      expect(await gateway.send(payment, { body: what })).toEqual(UNDECIDED);
      const answer = await gateway.sendUntilDecided(payment, { body: what, timeoutMs: 20_000 });
      expect(answer).toMatchObject(ACCEPTED);
      await gateway.waitForJobs(what);
      await expectChanges({ ...paidJobs(1), settleCalls: 2 });
    },
  );

  it("An authorization of 20 s that no facilitator settles is failed within 15 s of its end", async () => {
    const { client } = parts.anvil;
    await client.setIntervalMining({ interval: 1 });
    onTestFinished(() => client.setIntervalMining({ interval: 0 }));
    gateway.facilitatorProxy.add({
      path: "/settle",
      times: 50,
      fault: { kind: "answer", status: 500, body: "" },
    });
    const end = (await parts.chainTimeSecs()) + 20;
    const payment = await gateway.sign({ authorization: { validBefore: String(end) } });
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await gateway.sendUntilDecided(payment, { timeoutMs: 60_000 });
    expect(answer).toMatchObject(FAILED);
    expect((await parts.chainTimeSecs()) - end).toBeLessThan(15);
    const settleCalls = expect.any(Number);
    await expectChanges({ verifyCalls: 1, settleCalls, payments: { failed: 1 } });
  });
});
