import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import type { Fault } from "../helpers/fault.ts";
import { deployFaultyToken } from "../helpers/faulty-token.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import type { Token } from "../helpers/usdc.ts";
import { FAILED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

let silent: Token;
let movesNothing: Token;
let takesFee: Token;

const parts = startBeforeAll(startPaidParts);
beforeAll(async () => {
  const { anvil } = parts;
  silent = await deployFaultyToken({ anvil, fault: "SilentOnUsedNonce" });
  movesNothing = await deployFaultyToken({ anvil, fault: "MovesNothing" });
  takesFee = await deployFaultyToken({ anvil, fault: "TakesFee" });
  for (const token of [silent, movesNothing, takesFee])
    await token.mint(accounts.payer.address, 1_000_000_000n);
});
const withRpc = startBeforeAll(() => {
  const tokens = [parts.usdc, silent, movesNothing, takesFee];
  return startPaidGateway({ parts, setUp: "rpc_url", tokens });
});
afterEach(() => withRpc.facilitatorProxy.clear());

describe("Chain: a token that breaks its standard", () => {
  const silentOption = 1;
  /** Takes every transaction that is mined for a settlement, as simple facilitators do. */
  const credulous: Fault = {
    kind: "change",
    change: (answer) => {
      const body = JSON.parse(answer.body.toString()) as { transaction: string };
      expect(body.transaction).toMatch(/^0x[0-9a-f]{64}$/);
      return { ...answer, body: Buffer.from(JSON.stringify({ ...body, success: true })) };
    },
  };

  it("Token that does not revert on a used nonce → the front-run counts as paid: one job", async () => {
    const body = "silent, front-run";
    const payment = await withRpc.sign({ option: silentOption });
    const expectChanges = await watchLedger(parts, withRpc, silent);
    const used = withRpc.duringSettle(() => silent.transferWithAuthorization(payment.signed));
    const answer = withRpc.send(payment, { body });
    const transaction = await used;
    expect(await answer).toMatchObject({ status: 202, settlement: { success: true, transaction } });
    await withRpc.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Token that does not revert on a used nonce → a cancelled authorization that 'settles' buys nothing", async () => {
    const payment = await withRpc.sign({ option: silentOption });
    const expectChanges = await watchLedger(parts, withRpc, silent);
    // Between verify and settle.
    const cancel: Fault = {
      kind: "change",
      change: async (answer) => {
        await silent.cancelAuthorization(accounts.payer, payment.signed.authorization.nonce);
        return answer;
      },
    };
    withRpc.facilitatorProxy.add({ path: "/verify", fault: cancel });
    withRpc.facilitatorProxy.add({ path: "/settle", fault: credulous });
    expect(await withRpc.send(payment)).toMatchObject(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("Token that emits AuthorizationUsed and moves nothing → 402 settlement_failed, no job", async () => {
    const payment = await withRpc.sign({ option: 2 });
    const expectChanges = await watchLedger(parts, withRpc, movesNothing);
    withRpc.facilitatorProxy.add({ path: "/settle", fault: credulous });
    expect(await withRpc.send(payment)).toMatchObject(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("Token that keeps a fee from transfers → the price was not paid: no job", async () => {
    const payment = await withRpc.sign({ option: 3 });
    const expectChanges = await watchLedger(parts, withRpc, takesFee);
    expect(await withRpc.send(payment)).toMatchObject(FAILED);
    await expectChanges({
      verifyCalls: 1,
      settleCalls: 1,
      received: AMOUNT - AMOUNT / 10n,
      payments: { failed: 1 },
    });
  });
});
