import { PERMIT2_ADDRESS } from "@x402/evm";
import type { Address, Hex } from "viem";
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { ChainEvidence } from "../../../src/x402/settlement/chain-evidence.ts";
import { accounts, type TestAccount } from "../../helpers/accounts.ts";
import { borrowAnvil, MULTICALL3, sendTransaction, startAnvil } from "../../helpers/anvil.ts";
import type { Permit2Payment } from "../../helpers/clients.ts";
import type { Fault, ProxiedAnswer } from "../../helpers/fault.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import {
  approvePermit2,
  deployPlainToken,
  installPermit2,
  invalidatePermit2Nonce,
} from "../../helpers/permit2.ts";
import {
  batchCall,
  type ContractCall,
  cancelCall,
  cloneOfProxy,
  inOneBlock,
  otherUseCall,
  settleCall,
  settleWithPermitCall,
  transferCall,
} from "../../helpers/permit2-calls.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { deployUsdc, type Token } from "../../helpers/usdc.ts";
import { acceptedToken, paymentToSettle } from "../../x402/payment-fixtures.ts";
import { METHODS, permit2ToSettle } from "./payments.ts";

const SECOND_LOOK_AFTER_MS = 100;
const { payer, otherPayer, stranger, payTo } = accounts;

const anvil = startBeforeAll(borrowAnvil);
const rpc = startBeforeAll(() => startFaultProxy({ target: anvil.rpcUrl }));
let usdc: Token;
let evidence: ChainEvidence;

beforeAll(async () => {
  usdc = await deployUsdc({ anvil });
  await usdc.mint(payer.address, 1_000_000_000n);
  await installPermit2(anvil);
  await approvePermit2({ anvil, token: usdc.address, account: payer });
  evidence = evidenceOf();
});
afterEach(() => rpc.clear());

function evidenceOf(confirmations = 1): ChainEvidence {
  return new ChainEvidence({
    methods: METHODS,
    tokens: [{ ...acceptedToken(anvil, usdc, rpc.url), confirmations }],
    rpcTimeoutMs: 30_000,
    secondLookAfterMs: SECOND_LOOK_AFTER_MS,
  });
}

async function mineAt(timestamp: number): Promise<void> {
  await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(timestamp) });
  await anvil.client.mine({ blocks: 1 });
}

async function send({ target, callData }: ContractCall, from: TestAccount = stranger): Promise<Hex> {
  return (await sendTransaction({ anvil, from, to: target, data: callData })).transactionHash;
}

function otherUse({ key }: PaymentIntent, spender: Address = MULTICALL3, amount?: bigint) {
  return otherUseCall({ anvil, usdc }, { nonce: key.nonce, spender, ...(amount && { amount }) });
}

const settle = (payment: Permit2Payment): Promise<Hex> => send(settleCall(payment));
const sign = (options: Omit<Parameters<typeof permit2ToSettle>[0], "anvil" | "token"> = {}) =>
  permit2ToSettle({ anvil, token: usdc, ...options });

/** Looks at a payment until no second look has to confirm what is seen. */
function look(intent: PaymentIntent, transaction?: string) {
  return until(async () => {
    const seen = await evidence.look(intent, transaction);
    return (seen.kind !== "open" || seen.isAlmostNotPaid !== true) && seen;
  });
}

const PAID = (transaction: Hex) => ({
  kind: "paid",
  transaction,
  blockNumber: expect.stringMatching(/^[0-9]+$/),
});
const UNUSED = { kind: "open", reason: "the authorization is unused and still valid", isUnused: true };
const CANCELLED = { kind: "not_paid", reason: "the payer cancelled the authorization" };
const USED_OTHERWISE = {
  kind: "not_paid",
  reason: "the authorization was used without the offered transfer",
};

describe("The chain shows a Permit2 payment as", () => {
  it("Paid by anyone's direct call of the proxy, found by name or by search", async () => {
    const { payment, intent } = await sign();
    expect(await look(intent)).toEqual(UNUSED);
    const transaction = await settle(payment);
    expect(await look(intent)).toEqual(PAID(transaction));
    expect(await look(intent, transaction)).toEqual(PAID(transaction));
    await anvil.client.mine({ blocks: 3 });
    const fromBlock = String(await anvil.client.getBlockNumber());
    await anvil.client.mine({ blocks: 3 });
    expect(await look({ ...intent, fromBlock })).toEqual(PAID(transaction));
  });

  it("Paid by a call that lets Permit2 move the token first", async () => {
    await approvePermit2({ anvil, token: usdc.address, account: payer, amount: 0n });
    const { payment, intent } = await sign();
    const transaction = await send(await settleWithPermitCall({ anvil, usdc }, payment));
    expect(await look(intent)).toEqual(PAID(transaction));
    await approvePermit2({ anvil, token: usdc.address, account: payer });
  });

  it("Paid by a contract's calls, each of several with its own transfer", async () => {
    const [first, second, third] = [await sign(), await sign(), await sign()];
    const transaction = await send(batchCall([settleCall(first.payment), settleCall(second.payment)]));
    for (const { intent } of [first, second]) {
      expect(await look(intent)).toEqual(PAID(transaction));
      expect(await look(intent, transaction)).toEqual(PAID(transaction));
    }
    expect(await look(third.intent, transaction)).toEqual(UNUSED);
  });

  it("Paid, even if the facilitator names another payment's transaction, or the payer cancels it afterwards", async () => {
    const [earlier, { payment, intent }] = [await sign(), await sign()];
    const foreign = await settle(earlier.payment);
    expect(await look(intent, foreign)).toEqual(UNUSED);
    const transaction = await settle(payment);
    await invalidatePermit2Nonce(anvil, payer, intent.key.nonce);
    expect(await look(intent, foreign)).toEqual(PAID(transaction));
  });

  it("Paid by the right one of the payer's payments in one block", async () => {
    const [first, second, third] = [await sign(), await sign(), await sign()];
    const hashes = await inOneBlock(anvil, [
      { call: settleCall(first.payment) },
      { call: settleCall(second.payment) },
      { call: settleCall(third.payment) },
    ]);
    for (const [index, { intent }] of [first, second, third].entries()) {
      expect(await look(intent)).toEqual(PAID(hashes[index] as Hex));
    }
  });

  it("Unused while only its neighbours are used: another nonce of the same word, or of another payer", async () => {
    await usdc.mint(otherPayer.address, 1_000_000_000n);
    await approvePermit2({ anvil, token: usdc.address, account: otherPayer });
    const { intent } = await sign({ permit: { nonce: "256" } });
    const settled = await sign({ permit: { nonce: "257" } });
    const ofOther = await sign({ permit: { nonce: "256" }, account: otherPayer });
    await invalidatePermit2Nonce(anvil, payer, "258");
    for (const { payment } of [settled, ofOther]) {
      const transaction = await settle(payment);
      expect(await look(intent, transaction)).toEqual(UNUSED);
    }
    await invalidatePermit2Nonce(anvil, payer, "256");
    expect(await look(intent)).toEqual(CANCELLED);
    expect(await look(settled.intent)).toMatchObject({ kind: "paid" });
  });

  it("Not paid once the payer cancelled it, also in the block and after the transaction of another payment", async () => {
    const [paid, burnt] = [await sign(), await sign()];
    const [transaction] = (await inOneBlock(anvil, [
      { call: settleCall(paid.payment) },
      { call: cancelCall(burnt.intent.key.nonce), from: payer },
    ])) as [Hex];
    expect(await look(paid.intent, transaction)).toEqual(PAID(transaction));
    expect(await look(burnt.intent, transaction)).toEqual(CANCELLED);
    expect(await look(burnt.intent)).toEqual(CANCELLED);
  });

  it("Not paid when the payer used its nonce for another spender in the transaction that paid another one", async () => {
    const [paid, burnt] = [await sign(), await sign()];
    const other = await otherUse(burnt.intent);
    const transaction = await send(batchCall([other, settleCall(paid.payment)]));
    expect(await look(paid.intent, transaction)).toEqual(PAID(transaction));
    expect(await look(burnt.intent, transaction)).toEqual(USED_OTHERWISE);
    expect(await look(burnt.intent)).toEqual(USED_OTHERWISE);
  });

  it("Not paid when another spender moved the exact amount to the recipient, which another offer may ask for", async () => {
    const { intent } = await sign();
    const transaction = await send(await otherUse(intent, payer.address, BigInt(intent.amount)), payer);
    expect(await look(intent, transaction)).toEqual(USED_OTHERWISE);
  });

  it("Not paid when the proxy moved the exact amount of another token, or its code ran at another address", async () => {
    const [otherToken, clone] = [await deployPlainToken(anvil), await cloneOfProxy(anvil)];
    await otherToken.mint(payer.address, 1_000_000_000n);
    await approvePermit2({ anvil, token: otherToken.address, account: payer });
    const [first, second, paid] = [await sign(), await sign(), await sign()];
    const { permitted, nonce } = first.payment.permit;
    const moved = { ...permitted, token: otherToken.address };
    const inOtherToken = await settle((await sign({ permit: { permitted: moved, nonce } })).payment);
    const forClone = await sign({ permit: { spender: clone, nonce: second.payment.permit.nonce } });
    const cloned = { ...settleCall(forClone.payment), target: clone };
    const atOtherAddress = await send(batchCall([cloned, settleCall(paid.payment)]));
    for (const [{ intent }, transaction] of [
      [first, inOtherToken],
      [second, atOtherAddress],
    ] as const) {
      expect(await look(intent, transaction)).toEqual(USED_OTHERWISE);
      expect(await look(intent)).toEqual(USED_OTHERWISE);
    }
    expect(await look(paid.intent)).toEqual(PAID(atOtherAddress));
  });

  it("Unused when the call that settled it was reverted within the transaction that paid another one", async () => {
    const [paid, unused] = [await sign(), await sign()];
    const reverted = batchCall([settleCall(unused.payment), settleCall(unused.payment)]);
    const calls = [{ ...reverted, allowFailure: true }, settleCall(paid.payment)];
    const transaction = await send(batchCall(calls));
    expect(await look(paid.intent, transaction)).toEqual(PAID(transaction));
    expect(await look(unused.intent, transaction)).toEqual(UNUSED);
    await send(await otherUse(unused.intent, payer.address), payer);
    expect(await look(unused.intent, transaction)).toEqual(USED_OTHERWISE);
  });

  it("Not paid when its call data went to an address that did not execute it", async () => {
    const [paid, burnt] = [await sign(), await sign()];
    const other = await otherUse(burnt.intent);
    const ignored = { ...settleCall(burnt.payment), target: payTo.address };
    const transaction = await send(batchCall([ignored, other, settleCall(paid.payment)]));
    expect(await look(burnt.intent, transaction)).toEqual(USED_OTHERWISE);
  });

  it("Not paid when the token moved less than the amount, even with the expected transfer beside it", async () => {
    const { address, mint } = await deployPlainToken(anvil, "FeeToken");
    const feeToken = { ...usdc, address };
    await mint(payer.address, 1_000_000_000n);
    await approvePermit2({ anvil, token: address, account: payer });
    evidence.watch([acceptedToken(anvil, feeToken, rpc.url)]);
    const [direct, beside] = [
      await permit2ToSettle({ anvil, token: feeToken }),
      await permit2ToSettle({ anvil, token: feeToken }),
    ];
    const transfer = await transferCall({ anvil, usdc: feeToken }, BigInt(beside.intent.amount));
    for (const [{ intent }, transaction] of [
      [direct, await settle(direct.payment)],
      [beside, await send(batchCall([settleCall(beside.payment), transfer]))],
    ] as const) {
      expect(await look(intent, transaction)).toEqual(USED_OTHERWISE);
      expect(await look(intent)).toEqual(USED_OTHERWISE);
    }
  });

  it("Open exactly at its deadline, when Permit2 still accepts it, and not paid a second later", async () => {
    const { payment, intent } = await sign({ validSecs: 100 });
    await mineAt(intent.validBefore);
    expect(await look(intent)).toEqual(UNUSED);
    await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(intent.validBefore + 1) });
    await expect(settle(payment)).rejects.toThrow();
    await mineAt(intent.validBefore + 2);
    expect(await look(intent)).toEqual({ kind: "not_paid", reason: "the authorization expired unused" });
  });
});

describe("An RPC that does not trace transactions", () => {
  const problem = "its nonce is used, but a contract may have used it, and the RPC";
  it.each<[string, Fault, string]>([
    [
      "refuses",
      {
        kind: "answer",
        status: 200,
        body: { jsonrpc: "2.0", id: 1, error: { code: -32601, message: "no" } },
      },
      `${problem} does not trace the calls of a transaction (debug_traceTransaction)`,
    ],
    [
      "answers with HTTP 403",
      { kind: "answer", status: 403, body: "not in your plan" },
      `${problem} does not trace the calls of a transaction (debug_traceTransaction)`,
    ],
    [
      "shows no logs",
      { kind: "rewrite", rewrite: (body) => Buffer.from(body.toString().replace('"withLog":true', "")) },
      `${problem}'s trace does not show the logs of its calls`,
    ],
  ])(
    "One that %s leaves a contract's calls to the operator after the deadline; direct calls are paid",
    async (_, fault, reason) => {
      const [burnt, batched, direct] = [await sign({ validSecs: 100 }), await sign(), await sign()];
      const other = await otherUse(burnt.intent);
      const transaction = await send(batchCall([settleCall(batched.payment), other]));
      const directly = await settle(direct.payment);
      rpc.add({ rpcMethod: "debug_traceTransaction", fault });
      expect(await look(direct.intent)).toEqual(PAID(directly));
      for (const { intent } of [batched, burnt]) {
        expect(await look(intent, transaction)).toEqual({ kind: "open", reason });
      }
      await mineAt(batched.intent.validBefore + 1);
      for (const { intent } of [batched, burnt]) {
        expect(await look(intent, transaction)).toEqual({ kind: "unknown", reason });
      }
      rpc.clear();
      expect(await look(batched.intent)).toEqual(PAID(transaction));
      expect(await look(burnt.intent)).toEqual(USED_OTHERWISE);
    },
  );
});

describe("An RPC that no longer has the state of the blocks", () => {
  const noHistory: Fault = {
    kind: "answer",
    status: 200,
    body: { jsonrpc: "2.0", id: 1, error: { code: -32000, message: "missing trie node" } },
  };
  const asksByHash = ({ body }: { readonly body: Buffer }) => body.includes("blockHash");

  it("Needs the state around the use only, to show that it paid nothing", async () => {
    const { intent } = await sign();
    await anvil.client.mine({ blocks: 20 });
    await invalidatePermit2Nonce(anvil, payer, intent.key.nonce);
    await anvil.client.mine({ blocks: 5 });
    const { hash } = await anvil.client.getBlock({ blockNumber: BigInt(intent.fromBlock ?? 0) });
    rpc.add({ rpcMethod: "eth_call", when: ({ body }) => body.includes(hash), fault: noHistory });
    expect(await look(intent)).toEqual(CANCELLED);
  });

  it("Shows by its logs what was paid, before and after the payment's start block; the rest stays open", async () => {
    const [first, second, burnt] = [await sign(), await sign(), await sign({ validSecs: 100 })];
    const batch = await send(batchCall([settleCall(first.payment)]));
    const transaction = await settle(second.payment);
    await invalidatePermit2Nonce(anvil, payer, burnt.intent.key.nonce);
    await anvil.client.mine({ blocks: 3 });
    const fromBlock = String(await anvil.client.getBlockNumber());
    rpc.add({ rpcMethod: "eth_call", when: asksByHash, fault: noHistory });
    for (const [{ intent }, hash] of [
      [first, batch],
      [second, transaction],
    ] as const) {
      const fresh = evidenceOf();
      expect(await fresh.look(intent)).toEqual(PAID(hash));
      expect(await fresh.look({ ...intent, fromBlock })).toEqual(PAID(hash));
    }
    expect(await evidenceOf().look(burnt.intent)).toEqual({
      kind: "open",
      reason: "its nonce is used, but no event shows by which transaction",
    });
  });
});

describe("An RPC address whose nodes differ", () => {
  const replaced = (body: Buffer): Buffer => {
    const call = JSON.parse(body.toString()) as { params: unknown[] };
    return Buffer.from(JSON.stringify({ ...call, params: [call.params[0], "latest"] }));
  };

  it("A transaction that only another fork has never pays", async () => {
    const { payment, intent } = await sign();
    const head = await anvil.client.getBlockNumber();
    const fork = await startAnvil({
      extraArgs: ["--fork-url", anvil.rpcUrl, "--fork-block-number", String(head)],
    });
    onTestFinished(() => fork.stop());
    const { target, callData } = batchCall([settleCall(payment)]);
    const { transactionHash } = await sendTransaction({
      anvil: fork,
      from: stranger,
      to: target,
      data: callData,
    });
    await invalidatePermit2Nonce(anvil, payer, intent.key.nonce);
    for (const rpcMethod of [
      "eth_getTransactionReceipt",
      "eth_getTransactionByHash",
      "debug_traceTransaction",
    ])
      rpc.add({ rpcMethod, fault: { kind: "reroute", target: fork.rpcUrl } });
    expect(await look(intent, transactionHash)).toEqual({
      kind: "open",
      reason: "the authorization was used for the payment, but the block that used the nonce was replaced",
    });
    rpc.clear();
    expect(await look(intent, transactionHash)).toEqual(CANCELLED);
  });

  it("A node that answers with its newest state, whatever block is requested, decides nothing", async () => {
    const [{ intent }, paid] = [await sign(), await sign()];
    await invalidatePermit2Nonce(anvil, payer, intent.key.nonce);
    const transaction = await settle(paid.payment);
    await anvil.client.mine({ blocks: 3, interval: 10 });
    rpc.add({ rpcMethod: "eth_call", fault: { kind: "rewrite", rewrite: replaced } });
    for (let looks = 0; looks < 3; looks++) {
      expect(await look(intent)).toEqual({
        kind: "open",
        reason: "the chain could not be queried: the RPC answered with the state of another block",
        isUnread: true,
      });
    }
    rpc.clear();
    expect(await look(intent)).toEqual(CANCELLED);
    expect(await look(paid.intent)).toEqual(PAID(transaction));
  });

  it("A node that lacks the receipts of a block whose logs another has shown decides nothing", async () => {
    const { payment, intent } = await sign();
    const transaction = await settle(payment);
    const noReceipt: Fault = {
      kind: "answer",
      status: 200,
      body: { jsonrpc: "2.0", id: 1, result: null },
    };
    rpc.add({ rpcMethod: "eth_getTransactionReceipt", fault: noReceipt });
    expect(await look(intent)).toEqual({
      kind: "open",
      reason: "the chain could not be queried: the RPC does not have the transaction's receipt",
      isUnread: true,
    });
    rpc.clear();
    expect(await look(intent)).toEqual(PAID(transaction));
  });

  it("A chain that changes during a search decides nothing", async () => {
    const { intent } = await sign();
    await invalidatePermit2Nonce(anvil, payer, intent.key.nonce);
    const change = (answer: ProxiedAnswer): ProxiedAnswer => {
      const message = JSON.parse(answer.body.toString()) as { result: object };
      const result = { ...message.result, parentHash: `0x${"11".repeat(32)}` };
      return { ...answer, body: Buffer.from(JSON.stringify({ ...message, result })) };
    };
    rpc.add({ rpcMethod: "eth_getBlockByNumber", fault: { kind: "change", change } });
    expect(await look(intent)).toEqual({
      kind: "open",
      reason: "the chain could not be queried: the chain changed during a search",
      isUnread: true,
    });
  });

  it("After a reorganisation between two observations, what the chain shows in the end decides", async () => {
    const { payment, intent } = await sign();
    const careful = evidenceOf(2);
    const before = await anvil.client.snapshot();
    const transaction = await settle(payment);
    expect(await careful.look(intent, transaction)).toEqual({
      kind: "open",
      reason: "the block that used the authorization is not confirmed yet",
    });
    await anvil.client.revert({ id: before });
    await anvil.client.mine({ blocks: 2 });
    expect(await careful.look(intent, transaction)).toEqual(UNUSED);
    const again = await send(batchCall([settleCall(payment)]));
    await anvil.client.mine({ blocks: 1 });
    expect(await careful.look(intent, transaction)).toEqual(PAID(again));
  });
});

describe("Where Permit2's creation code, or nothing, is at Permit2's address", () => {
  it.each(["creation code", "no code"])("%s: never paid, and refused before money moves", async (what) => {
    const { payment, intent } = await sign();
    const code = await anvil.client.getCode({ address: PERMIT2_ADDRESS });
    onTestFinished(() => anvil.client.setCode({ address: PERMIT2_ADDRESS, bytecode: code ?? "0x" }));
    if (what === "creation code") await installPermit2(anvil, { code: "creation" });
    else await anvil.client.setCode({ address: PERMIT2_ADDRESS, bytecode: "0x" });
    // The proxy takes the payment and moves nothing, and the very transfer happens beside it.
    const settled = { ...settleCall(payment), allowFailure: true };
    const transaction = await send(
      batchCall([settled, await transferCall({ anvil, usdc }, BigInt(intent.amount))]),
    );
    const direct = what === "creation code" ? await settle(payment) : transaction;
    for (const named of [transaction, undefined]) {
      expect(await look(intent, named)).toMatchObject({ kind: "open" });
    }
    if (what === "creation code") {
      const reason =
        "the authorization was used without the offered transfer, but no contract keeps the nonce";
      expect(await look(intent, direct)).toEqual({ kind: "open", reason });
    }
    await expect(evidence.findEarlierUse(intent)).rejects.toMatchObject({
      code: "facilitator_unavailable",
      message: expect.stringContaining("does not tell whether the nonce is used"),
    });
  });
});

it("An observation of a named transaction makes 4 RPC calls, one more than for EIP-3009", async () => {
  const { payment, intent } = await sign();
  const eip3009 = await paymentToSettle({ anvil, token: usdc });
  const transaction = await settle(payment);
  const before = rpc.requests.length;
  await look(intent, transaction);
  const between = rpc.requests.length;
  const hash = await usdc.transferWithAuthorization(eip3009.signed);
  await look(eip3009.intent, hash);
  expect([between - before, rpc.requests.length - between]).toEqual([4, 3]);
});

it("A nonce that was used before jobgate saw it is refused with its transaction", async () => {
  const [used, unused] = [await sign(), await sign()];
  const transaction = await settle(used.payment);
  const { fromBlock: _unknown, ...payment } = used.intent;
  expect(await evidence.findEarlierUse(payment)).toEqual({ transaction });
  expect(await evidence.findEarlierUse(unused.intent)).toBeUndefined();
});
