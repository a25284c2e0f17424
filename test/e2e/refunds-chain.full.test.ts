import { encodeFunctionData, parseAbi, type TransactionReceipt } from "viem";
import { describe, expect, it, onTestFinished } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { type Refund, RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { accounts } from "../helpers/accounts.ts";
import { sendTransaction } from "../helpers/anvil.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

/** Job whose refunds wait for an approval, so that the test knows when each is sent. */
const JOB = 1;
const CONFIRMATIONS = 3;
/** Blocks after which a transaction that reverted counts as final. */
const FINAL_BLOCKS = 12n;
const DECISION = { by: "ada", note: "as agreed" };
const payer = accounts.payer.address;

const parts = startBeforeAll(startPaidParts);
const account = startBeforeAll(async () => ({
  ...(await refundAccount(parts)),
  stop: () => Promise.resolve(),
}));
const gateway = startBeforeAll(() =>
  startPaidGateway({
    rpcFaults: true,
    parts,
    setUp: "rpc_url",
    confirmations: CONFIRMATIONS,
    periods: { confirmationTimeoutMs: 500 },
    edit: account.edit,
    handle: () => Promise.reject(new Fail("no good")),
  }),
);
const operator = () => createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });
const mine = (blocks: number) => parts.anvil.client.mine({ blocks });

/** Buys a run of a job that fails. @returns its call ID */
async function buyAndFail(): Promise<bigint> {
  const payment = await gateway.sign({ job: JOB });
  // Undecided until it has its confirmations.
  const send = async () => {
    await mine(CONFIRMATIONS);
    return gateway.send(payment, { job: JOB });
  };
  await expect.poll(send).toMatchObject({ status: 202 });
  const { call_id = 0 } = await send();
  await expect.poll(() => refundOf(BigInt(call_id))).toMatchObject({ state: RefundState.OWED, asks: true });
  return BigInt(call_id);
}

async function refundOf(callId: bigint): Promise<Refund | undefined> {
  const { refunds } = await operator().listRefunds({ pageSize: 500 });
  return refunds.find((refund) => refund.callId === callId);
}

async function approve(callId: bigint): Promise<void> {
  await operator().approveRefund({ callId, ...DECISION });
}

/** Waits for the state, while blocks are mined. */
async function untilRefundIs(callId: bigint, state: RefundState): Promise<Refund> {
  await expect
    .poll(async () => {
      await mine(1);
      return refundOf(callId);
    })
    .toMatchObject({ state });
  return (await refundOf(callId)) as Refund;
}

async function receiptOf({ transaction }: Refund): Promise<TransactionReceipt> {
  return parts.anvil.client.getTransactionReceipt({ hash: transaction as `0x${string}` });
}

describe("The transaction of a refund", () => {
  it("The same transaction is sent again when a reorganisation removes it, and the payer gets the money once", async () => {
    await parts.usdc.mint(account.address, AMOUNT);
    const callId = await buyAndFail();
    const before = await parts.usdc.balanceOf(payer);
    const snapshot = await parts.anvil.client.snapshot();
    await approve(callId);
    await expect.poll(() => parts.usdc.balanceOf(payer)).toBe(before + AMOUNT);
    const [first] = await account.transfers();
    // One confirmation of three: jobgate looks again and again.
    const looks = () =>
      gateway.rpcProxy.requests.filter(({ body }) => body.includes(first?.transaction ?? "none"));
    await expect.poll(() => looks().length).toBeGreaterThan(3);
    expect(await refundOf(callId)).toMatchObject({ state: RefundState.SENDING });

    // What is sent again is not mined before the test has looked.
    await parts.anvil.client.setAutomine(false);
    onTestFinished(() => parts.anvil.client.setAutomine(true));
    await parts.anvil.client.revert({ id: snapshot });
    expect(await parts.usdc.balanceOf(payer)).toBe(before);
    expect(await refundOf(callId)).toMatchObject({ state: RefundState.SENDING });
    await parts.anvil.client.setAutomine(true);
    const refund = await untilRefundIs(callId, RefundState.REFUNDED);
    expect(refund).toMatchObject({ attempt: 1, transaction: first?.transaction });
    expect(await receiptOf(refund)).toMatchObject({ status: "success" });
    expect(await account.transfers()).toHaveLength(1);
    expect(await parts.usdc.balanceOf(payer)).toBe(before + AMOUNT);
    expect(await parts.usdc.balanceOf(account.address)).toBe(0n);
  });

  it.each([
    ["the token blocks the payer meanwhile", blockPayer],
    ["the account is drained meanwhile", drain],
  ])("Reverts when %s: the refund failed, and another one can be approved", async (_, meanwhile) => {
    const { client } = parts.anvil;
    await parts.usdc.mint(account.address, AMOUNT);
    const callId = await buyAndFail();
    const [sentBefore, before] = [(await account.transfers()).length, await parts.usdc.balanceOf(payer)];
    const drainage = await gateway.sign({ account: account.owner, job: JOB });

    await client.setAutomine(false);
    onTestFinished(() => client.setAutomine(true));
    await approve(callId);
    // The pool holds the transfer, which would succeed.
    await expect.poll(async () => (await client.getTxpoolStatus()).pending).toBe(1);
    const repair = await meanwhile(drainage);
    await client.setAutomine(true);
    const failed = await untilRefundIs(callId, RefundState.REFUND_FAILED);
    expect(failed).toMatchObject({ attempt: 1, reason: expect.stringContaining("reverted") });
    const { status, blockNumber } = await receiptOf(failed);
    expect(status).toBe("reverted");
    expect((await client.getBlockNumber()) - blockNumber).toBeGreaterThanOrEqual(FINAL_BLOCKS);
    expect(await parts.usdc.balanceOf(payer)).toBe(before);

    await repair();
    await approve(callId);
    expect(await untilRefundIs(callId, RefundState.REFUNDED)).toMatchObject({ attempt: 2 });
    expect(await parts.usdc.balanceOf(payer)).toBe(before + AMOUNT);
    const sent = (await account.transfers()).slice(sentBefore).filter(({ to }) => to === payer.toLowerCase());
    expect(sent).toHaveLength(1);
    expect(await operator().getTotals({})).toMatchObject({ balanced: true, kept: 0n });
  });
});

type Repair = () => Promise<void>;

async function blockPayer(): Promise<Repair> {
  const abi = parseAbi(["function blacklist(address account)", "function unBlacklist(address account)"]);
  const ask = async (functionName: "blacklist" | "unBlacklist", beforePending: boolean) => {
    const data = encodeFunctionData({ abi, functionName, args: [payer] });
    const { anvil, usdc } = parts;
    await sendTransaction({ anvil, from: accounts.deployer, to: usdc.address, data, beforePending });
  };
  await ask("blacklist", true);
  return () => ask("unBlacklist", false);
}

/** Moves the tokens away by an authorization, which uses no nonce of the account. */
async function drain({ signed }: Payment): Promise<Repair> {
  await parts.usdc.transferWithAuthorization(signed, accounts.stranger, { beforePending: true });
  return () => parts.usdc.mint(account.address, AMOUNT);
}
