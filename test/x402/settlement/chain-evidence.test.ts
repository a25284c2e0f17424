import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { ChainClient } from "../../../src/chain/chain-client.ts";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { Eip3009Authorization } from "../../../src/x402/methods/eip3009.ts";
import { ChainEvidence } from "../../../src/x402/settlement/chain-evidence.ts";
import { LogSearch } from "../../../src/x402/settlement/log-search.ts";
import { accounts } from "../../helpers/accounts.ts";
import { borrowAnvil, startAnvil } from "../../helpers/anvil.ts";
import type { Fault } from "../../helpers/fault.ts";
import { deployFaultyToken } from "../../helpers/faulty-token.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { deployUsdc, eip3009Token, type Token } from "../../helpers/usdc.ts";
import { acceptedToken, paymentToSettle } from "../payment-fixtures.ts";
import { METHODS } from "../payments.ts";

const SECOND_LOOK_AFTER_MS = 100;
const RPC_TIMEOUT_MS = 30_000;

const anvil = startBeforeAll(borrowAnvil);
const rpc = startBeforeAll(() => startFaultProxy({ target: anvil.rpcUrl }));
let usdc: Token;
let movesNothing: Token;
let evidence: ChainEvidence;

beforeAll(async () => {
  usdc = await deployUsdc({ anvil });
  movesNothing = await deployFaultyToken({ anvil, fault: "MovesNothing" });
  for (const token of [usdc, movesNothing]) await token.mint(accounts.payer.address, 1_000_000_000n);
  evidence = evidenceFor(1);
});

function evidenceFor(
  confirmations: number,
  { secondLookAfterMs = SECOND_LOOK_AFTER_MS, rpcTimeoutMs = RPC_TIMEOUT_MS } = {},
): ChainEvidence {
  const tokens = [usdc, movesNothing].map((token) => ({
    ...acceptedToken(anvil, token, rpc.url),
    confirmations,
  }));
  return new ChainEvidence({ methods: METHODS, tokens, rpcTimeoutMs, secondLookAfterMs });
}

const noLogs: Fault = {
  kind: "change",
  change: (answer, { body }) => {
    const { id } = JSON.parse(body.toString()) as { id: number };
    return { ...answer, body: Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, result: [] })) };
  },
};

/** Providers refuse long ranges in different ways. */
const refuseLogs = (status: number): Fault => ({
  kind: "change",
  change: (answer, { body }) => {
    const { id } = JSON.parse(body.toString()) as { id: number };
    const error = { code: -32600, message: "the range of blocks is too long" };
    return { ...answer, status, body: Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, error })) };
  },
});

const isOver =
  (blocks: bigint) =>
  ({ body }: { readonly body: Buffer }): boolean => {
    const { params } = JSON.parse(body.toString()) as { params: [{ fromBlock: string; toBlock: string }] };
    return BigInt(params[0].toBlock) - BigInt(params[0].fromBlock) + 1n > blocks;
  };

/** Looks at a payment until no second look has to confirm what is seen. */
function lookTwice(evidence: ChainEvidence, intent: PaymentIntent, transaction?: string) {
  return until(async () => {
    const seen = await evidence.look(intent, transaction);
    return (seen.kind !== "open" || seen.isAlmostNotPaid !== true) && seen;
  });
}

/** A node that lags behind by 20 blocks and answers with the state that it has, whatever block it is asked for. */
const laggingState: Fault = {
  kind: "rewrite",
  rewrite(body) {
    const call = JSON.parse(body.toString()) as { params: unknown[] };
    call.params[1] = `0x${(freshHead - 20n).toString(16)}`;
    return Buffer.from(JSON.stringify(call));
  },
};
let freshHead = 0n;

afterEach(() => rpc.clear());

describe("The chain shows a payment as", () => {
  it("Paid, with the transaction that paid and its block, regardless of its sender", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const transaction = await usdc.transferWithAuthorization(signed);
    const mined = await anvil.client.getTransactionReceipt({ hash: transaction });
    const paid = { kind: "paid", transaction, blockNumber: mined.blockNumber.toString() };
    expect(await evidence.look(intent)).toEqual(paid);
    expect(await evidence.look(intent, transaction)).toEqual(paid);
  });

  it("Paid, even without a start block, and if the facilitator names a wrong transaction", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const other = await paymentToSettle({ anvil, token: usdc });
    const transaction = await usdc.transferWithAuthorization(signed);
    const wrong = await usdc.transferWithAuthorization(other.signed);
    const { fromBlock: _unknown, ...rest } = intent;
    expect(await evidence.look(rest, wrong)).toMatchObject({ kind: "paid", transaction });
  });

  it.each([
    ["an error", 200, 10n],
    ["an error", 200, 100n],
    ["HTTP 400", 400, 10n],
  ])(
    "Paid, even if the RPC answers long ranges of logs with %s (%i) and accepts only %i blocks",
    async (_, status, most) => {
      const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
      const transaction = await usdc.transferWithAuthorization(signed);
      await anvil.client.mine({ blocks: 120 });
      rpc.add({ rpcMethod: "eth_getLogs", when: isOver(most), fault: refuseLogs(status) });
      const { fromBlock: _unknown, ...rest } = intent;
      const evidence = evidenceFor(1);
      expect(await evidence.look(intent)).toMatchObject({ kind: "paid", transaction });
      expect(await evidence.look(rest)).toMatchObject({ kind: "paid", transaction });
      const asked = rpc.count("eth_getLogs");
      expect(await evidence.look(intent)).toMatchObject({ kind: "paid", transaction });
      // It has learnt the range that the RPC accepts: one query for each event.
      expect(rpc.count("eth_getLogs") - asked).toBe(2);
      rpc.clear();
    },
  );

  it("Unknown once the payment has expired, if the RPC refuses every query for logs", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    await usdc.transferWithAuthorization(signed);
    rpc.add({ rpcMethod: "eth_getLogs", fault: refuseLogs(200) });
    const reason = "its nonce is used, but the RPC refuses to search logs";
    expect(await evidence.look(intent)).toEqual({ kind: "open", reason });
    await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(intent.validBefore) });
    await anvil.client.mine({ blocks: 1 });
    expect(await evidence.look(intent)).toEqual({ kind: "unknown", reason });
    rpc.clear();
  });

  it("A reload adds its tokens, and keeps the tokens that it removed", async () => {
    const reloaded = new ChainEvidence({
      methods: METHODS,
      tokens: [acceptedToken(anvil, usdc, rpc.url)],
      rpcTimeoutMs: RPC_TIMEOUT_MS,
      secondLookAfterMs: SECOND_LOOK_AFTER_MS,
    });
    const [old, added] = [usdc, movesNothing].map((token) => ({
      network: `eip155:${anvil.chainId}`,
      asset: token.address,
    }));
    if (old === undefined || added === undefined) throw new Error("two tokens were expected");
    expect([reloaded.covers(old), reloaded.covers(added)]).toEqual([true, false]);
    reloaded.watch([acceptedToken(anvil, movesNothing, rpc.url)]);
    expect([reloaded.covers(old), reloaded.covers(added)]).toEqual([true, true]);
  });

  it("Not paid once the payer cancelled it", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    await usdc.cancelAuthorization(accounts.payer, signed.authorization.nonce);
    expect(await lookTwice(evidence, intent)).toEqual({
      kind: "not_paid",
      reason: "the payer cancelled the authorization",
    });
  });

  it("Not paid when its nonce was used and nothing moved, even if the facilitator names that transaction", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: movesNothing });
    const transaction = await movesNothing.transferWithAuthorization(signed);
    expect(await lookTwice(evidence, intent, transaction)).toMatchObject({ kind: "not_paid" });
  });

  it("Open while unused and still valid; not paid from the second at which it expires", async () => {
    const { intent } = await paymentToSettle({ anvil, token: usdc, validSecs: 100 });
    await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(intent.validBefore - 1) });
    await anvil.client.mine({ blocks: 1 });
    expect(await evidence.look(intent)).toEqual({
      kind: "open",
      reason: "the authorization is unused and still valid",
      isUnused: true,
    });
    await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(intent.validBefore) });
    await anvil.client.mine({ blocks: 1 });
    expect(await lookTwice(evidence, intent)).toEqual({
      kind: "not_paid",
      reason: "the authorization expired unused",
    });
  });

  it("Neither paid nor expired before enough blocks confirm it", async () => {
    const careful = evidenceFor(3);
    const paid = await paymentToSettle({ anvil, token: usdc });
    const unused = await paymentToSettle({ anvil, token: usdc, validSecs: 100 });
    await usdc.transferWithAuthorization(paid.signed);
    await anvil.client.setNextBlockTimestamp({ timestamp: BigInt(unused.intent.validBefore) });
    await anvil.client.mine({ blocks: 1 });
    expect(await careful.look(paid.intent)).toMatchObject({ kind: "open" });
    expect(await careful.look(unused.intent)).toMatchObject({ kind: "open" });
    await anvil.client.mine({ blocks: 1 });
    expect(await careful.look(paid.intent)).toMatchObject({ kind: "paid" });
    expect(await careful.look(unused.intent)).toMatchObject({ kind: "open" });
    await anvil.client.mine({ blocks: 1 });
    expect(await lookTwice(careful, unused.intent)).toMatchObject({ kind: "not_paid" });
  });

  it("A used nonce without its event is open while logs may lag, and unknown once the payment has expired", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc, validSecs: 100 });
    await usdc.transferWithAuthorization(signed);
    rpc.add({ rpcMethod: "eth_getLogs", fault: noLogs });
    expect(await evidence.look(intent)).toMatchObject({ kind: "open" });
    await anvil.client.increaseTime({ seconds: 101 });
    await anvil.client.mine({ blocks: 1 });
    expect(await evidence.look(intent)).toMatchObject({ kind: "unknown" });
    rpc.clear();
    expect(await evidence.look(intent)).toMatchObject({ kind: "paid" });
  });

  it("Open while the chain does not answer, or its answers are malformed", async () => {
    const { intent } = await paymentToSettle({ anvil, token: usdc });
    const faults: Fault[] = [
      { kind: "cut" },
      { kind: "answer", status: 200, body: { jsonrpc: "2.0", id: 1, result: "0x01" } },
      { kind: "answer", status: 200, body: "<html>" },
    ];
    for (const fault of faults) {
      rpc.add({ rpcMethod: "eth_call", fault });
      expect(await evidence.look(intent)).toMatchObject({ kind: "open" });
      rpc.clear();
    }
    rpc.add({ rpcMethod: "eth_call", fault: { kind: "no-answer" } });
    expect(await evidenceFor(1, { rpcTimeoutMs: 200 }).look(intent)).toMatchObject({ kind: "open" });
  });
});

describe("An RPC address whose nodes differ", () => {
  /** A payment that was paid 10 blocks ago, and whose time is over. */
  async function paidAndExpired() {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc, validSecs: 100 });
    await anvil.client.mine({ blocks: 12 });
    const transaction = await usdc.transferWithAuthorization(signed);
    await anvil.client.increaseTime({ seconds: 101 });
    await anvil.client.mine({ blocks: 10 });
    freshHead = await anvil.client.getBlockNumber();
    return { intent, transaction };
  }

  it("By 20 blocks, each answering with what it has: never not paid for a paid payment", async () => {
    const { intent, transaction } = await paidAndExpired();
    rpc.add({ rpcMethod: "eth_call", fault: laggingState });
    for (let look = 0; look < 3; look++) {
      expect(await evidence.look(intent)).toEqual({
        kind: "open",
        reason: "the authorization expired unused, but the RPC answered with the state of another block",
      });
      await sleep(SECOND_LOOK_AFTER_MS);
    }
    rpc.clear();
    expect(await evidence.look(intent)).toMatchObject({ kind: "paid", transaction });
  });

  it("A receipt without the logs that used the authorization is never not paid", async () => {
    const { intent, transaction } = await paidAndExpired();
    const withoutLogs: Fault = {
      kind: "change",
      change: (answer) => {
        const message = JSON.parse(answer.body.toString()) as { result: { logs: unknown[] } };
        message.result.logs = [];
        return { ...answer, body: Buffer.from(JSON.stringify(message)) };
      },
    };
    rpc.add({ rpcMethod: "eth_getTransactionReceipt", fault: withoutLogs });
    expect(await evidence.look(intent, transaction)).toEqual({
      kind: "open",
      reason: "the transaction that used the authorization is gone",
    });
    rpc.clear();
    expect(await evidence.look(intent)).toMatchObject({ kind: "paid", transaction });
  });

  it("A lagging answer to one call of an observation is never not paid", async () => {
    const { intent, transaction } = await paidAndExpired();
    rpc.add({ rpcMethod: "eth_call", times: 1, fault: laggingState });
    expect(await evidence.look(intent)).toEqual({
      kind: "open",
      reason: "the authorization expired unused, but the RPC's nodes disagree whether the nonce is used",
    });
    expect(await lookTwice(evidence, intent)).toMatchObject({ kind: "paid", transaction });
  });

  it("Not paid takes two observations at different times with the same result", async () => {
    const { intent } = await paymentToSettle({ anvil, token: usdc, validSecs: 100 });
    await anvil.client.increaseTime({ seconds: 101 });
    await anvil.client.mine({ blocks: 21, interval: 2 });
    freshHead = await anvil.client.getBlockNumber();
    const almost = { kind: "open", isAlmostNotPaid: true };
    const patient = evidenceFor(1, { secondLookAfterMs: 60_000 });
    for (let look = 0; look < 3; look++) expect(await patient.look(intent)).toMatchObject(almost);

    expect(await evidence.look(intent)).toMatchObject(almost);
    await sleep(SECOND_LOOK_AFTER_MS);
    // Another answer in between starts the count again.
    rpc.add({ rpcMethod: "eth_call", fault: laggingState });
    expect(await evidence.look(intent)).toMatchObject({ kind: "open" });
    rpc.clear();
    expect(await evidence.look(intent)).toMatchObject(almost);
    expect(await lookTwice(evidence, intent)).toMatchObject({ kind: "not_paid" });
  });

  it("An RPC that does not take a block's hash leaves an expired payment open, and the reason says so", async () => {
    const { intent } = await paymentToSettle({ anvil, token: usdc, validSecs: 100 });
    await anvil.client.increaseTime({ seconds: 101 });
    await anvil.client.mine({ blocks: 1 });
    rpc.add({
      rpcMethod: "eth_call",
      when: ({ body }) => body.includes("blockHash"),
      fault: refuseLogs(200),
    });
    for (let look = 0; look < 2; look++) {
      expect(await lookTwice(evidence, intent)).toEqual({
        kind: "open",
        reason:
          "the authorization expired unused, but the RPC does not answer for the state of a block by its hash",
      });
    }
    rpc.clear();
    expect(await lookTwice(evidence, intent)).toMatchObject({ kind: "not_paid" });
  });
});

describe("A node that is left behind on another fork, where the payment was settled", () => {
  it.each([3, 5])("It is never paid when the other nodes have %d blocks of their own", async (blocks) => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const fork = await startAnvil({ extraArgs: ["--fork-url", anvil.rpcUrl] });
    try {
      const transaction = await eip3009Token({ ...usdc, anvil: fork }).transferWithAuthorization(signed);
      await anvil.client.mine({ blocks });
      rpc.add({
        rpcMethod: "eth_getTransactionReceipt",
        fault: { kind: "reroute", target: fork.rpcUrl },
      });
      expect(await evidenceFor(3).look(intent, transaction)).toEqual({
        kind: "open",
        reason: "the authorization was used for the payment, but the block that used the nonce was replaced",
      });
    } finally {
      await fork.stop();
    }
  });

  it("Its word against the other nodes' is never paid", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const fork = await startAnvil({ extraArgs: ["--fork-url", anvil.rpcUrl] });
    try {
      const transaction = await eip3009Token({ ...usdc, anvil: fork }).transferWithAuthorization(signed);
      await anvil.client.mine({ blocks: 10 });
      const evidence = evidenceFor(3);
      for (const rpcMethod of ["eth_getTransactionReceipt", "eth_getLogs"]) {
        rpc.add({ rpcMethod, fault: { kind: "reroute", target: fork.rpcUrl } });
      }
      expect(await evidence.look(intent, transaction)).toEqual({
        kind: "open",
        reason: "the authorization was used for the payment, but the block that used the nonce was replaced",
      });

      // It may answer for its own block too.
      const { blockNumber, blockHash } = await fork.client.getTransactionReceipt({ hash: transaction });
      const ofItsBlock = ({ body }: { body: Buffer }) => body.includes(`"0x${blockNumber.toString(16)}"`);
      rpc.add({
        rpcMethod: "eth_getBlockByNumber",
        when: ofItsBlock,
        fault: { kind: "reroute", target: fork.rpcUrl },
      });
      expect((await anvil.client.getBlock({ blockNumber })).hash).not.toBe(blockHash);
      expect(await evidence.look(intent, transaction)).toEqual({
        kind: "open",
        reason:
          "the authorization was used for the payment, but the RPC's nodes disagree whether the nonce is used",
      });
    } finally {
      await fork.stop();
    }
  });

  it("An RPC that does not take a block's hash still shows what was paid", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const transaction = await usdc.transferWithAuthorization(signed);
    rpc.add({
      rpcMethod: "eth_call",
      when: ({ body }) => body.includes("blockHash"),
      fault: refuseLogs(200),
    });
    expect(await evidenceFor(1).look(intent)).toMatchObject({ kind: "paid", transaction });
  });
});

describe("An authorization that was used before jobgate saw it", () => {
  it("40 blocks before: found, with its transaction", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    expect(await evidence.findEarlierUse(intent)).toBeUndefined();
    const transaction = await usdc.transferWithAuthorization(signed);
    await anvil.client.mine({ blocks: 40 });
    const { fromBlock: _notYet, ...firstSeen } = intent;
    expect(await evidence.findEarlierUse(firstSeen)).toEqual({ transaction });
  });

  it("Journalled all the same, by a lagging node: the search goes back in bounded steps, one in each observation", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const transaction = await usdc.transferWithAuthorization(signed);
    await anvil.client.mine({ blocks: 100 });
    const head = await anvil.client.getBlockNumber();
    const seenLate = { ...intent, fromBlock: String(head - 16n) };
    expect(await evidence.look(seenLate)).toMatchObject({ kind: "paid", transaction });

    rpc.add({ rpcMethod: "eth_getLogs", when: isOver(10n), fault: refuseLogs(200) });
    const client = await new ChainClient({ rpcUrl: rpc.url, timeoutMs: RPC_TIMEOUT_MS }).connect();
    const search = new LogSearch();
    const found: unknown[] = [];
    for (let look = 0; found.at(-1) === undefined || found.at(-1) === "unfinished"; look++) {
      const asked = rpc.count("eth_getLogs");
      found.push(await search.find(client, new Eip3009Authorization(seenLate), head, 6));
      expect(rpc.count("eth_getLogs") - asked).toBeLessThanOrEqual(12);
      expect(look).toBeLessThan(10);
    }
    expect(found.length).toBeGreaterThan(2);
    expect(found.at(-1)).toMatchObject({ outcome: { transaction } });
  });

  it("The search goes on where it stopped, and starts anew after its end, because the node may have lagged", async () => {
    await anvil.client.increaseTime({ seconds: 10 });
    await anvil.client.mine({ blocks: 1 });
    const { timestamp } = await anvil.client.getBlock();
    const authorization = { validAfter: String(timestamp - 5n) };
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc, authorization });
    await anvil.client.mine({ blocks: 100 });
    const transaction = await usdc.transferWithAuthorization(signed);
    const head = await anvil.client.getBlockNumber();
    const client = await new ChainClient({ rpcUrl: rpc.url, timeoutMs: RPC_TIMEOUT_MS }).connect();
    const search = new LogSearch();
    const finds = async () => {
      for (let look = 0; look < 50; look++) {
        const found = await search.find(client, new Eip3009Authorization(intent), head, 6);
        if (found !== "unfinished") return found;
      }
      throw new Error("the search has no end");
    };
    rpc.add({ rpcMethod: "eth_getLogs", when: isOver(10n), fault: refuseLogs(200) });
    rpc.add({ rpcMethod: "eth_getLogs", fault: noLogs });
    expect(await finds()).toBeUndefined();
    rpc.clear();
    rpc.add({ rpcMethod: "eth_getLogs", when: isOver(10n), fault: refuseLogs(200) });
    expect(await finds()).toMatchObject({ outcome: { transaction } });
  });

  it("A refusal with a passing cause neither ends the search nor makes it slow for good", async () => {
    const { intent, signed } = await paymentToSettle({ anvil, token: usdc });
    const head = await anvil.client.getBlockNumber();
    const client = await new ChainClient({ rpcUrl: rpc.url, timeoutMs: RPC_TIMEOUT_MS }).connect();
    const search = new LogSearch();
    const recent = new Eip3009Authorization({ ...intent, fromBlock: String(head) });
    rpc.add({ rpcMethod: "eth_getLogs", times: 1, fault: refuseLogs(200) });
    expect(await search.find(client, recent, head)).toBeUndefined();

    await anvil.client.mine({ blocks: 100 });
    const transaction = await usdc.transferWithAuthorization(signed);
    const later = await anvil.client.getBlockNumber();
    // Two queries at a time, one for each event: the range falls to ten blocks.
    rpc.add({ rpcMethod: "eth_getLogs", times: 6, fault: refuseLogs(200) });
    const queriesOfFind = async (): Promise<number> => {
      const asked = rpc.count("eth_getLogs");
      expect(await search.find(client, recent, later)).toMatchObject({ outcome: { transaction } });
      return rpc.count("eth_getLogs") - asked;
    };
    expect(await queriesOfFind()).toBeGreaterThan(10);
    for (let finds = 0; finds < 200 && (await queriesOfFind()) > 2; finds++);
    expect(await queriesOfFind()).toBe(2);
  });

  it("Before it can have been valid: not searched", async () => {
    const { timestamp } = await anvil.client.getBlock();
    const { intent, signed } = await paymentToSettle({
      anvil,
      token: usdc,
      authorization: { validAfter: String(timestamp - 5n) },
    });
    await usdc.transferWithAuthorization(signed);
    await anvil.client.increaseTime({ seconds: 10 });
    await anvil.client.mine({ blocks: 20, interval: 1 });
    const head = await anvil.client.getBlockNumber();
    rpc.add({ rpcMethod: "eth_getLogs", fault: noLogs });
    const asked = rpc.count("eth_getLogs");
    const client = await new ChainClient({ rpcUrl: rpc.url, timeoutMs: RPC_TIMEOUT_MS }).connect();
    const late = new Eip3009Authorization({ ...intent, fromBlock: String(head) });
    expect(await new LogSearch().find(client, late, head)).toBeUndefined();
    expect(rpc.count("eth_getLogs") - asked).toBe(4);
  });
});

describe("Tokens with an RPC", () => {
  it("Tokens with an rpc_url, in any letter case", () => {
    const { network } = acceptedToken(anvil, usdc);
    const key = { network, asset: usdc.address };
    expect(evidence.covers({ network, asset: usdc.address.toLowerCase() })).toBe(true);
    expect(evidence.isRequired(key)).toBe(true);
    expect(evidence.covers({ network: "eip155:1", asset: usdc.address })).toBe(false);
    const without = new ChainEvidence({
      methods: METHODS,
      tokens: [acceptedToken(anvil, usdc)],
      rpcTimeoutMs: RPC_TIMEOUT_MS,
      secondLookAfterMs: SECOND_LOOK_AFTER_MS,
    });
    expect([without.covers(key), without.isRequired(key)]).toEqual([false, false]);
  });

  it("A start block comes from memory while the RPC is down, but not if it was never up", async () => {
    const { network } = acceptedToken(anvil, usdc);
    const token = { network, asset: usdc.address };
    const fresh = evidenceFor(1);
    rpc.add({ fault: { kind: "cut" } });
    await expect(fresh.startBlock(token)).rejects.toThrow();
    rpc.clear();
    const block = await fresh.startBlock(token);
    expect(block).toBeLessThanOrEqual(await anvil.client.getBlockNumber());
    rpc.add({ fault: { kind: "cut" } });
    expect(await fresh.startBlock(token)).toBe(block);
    rpc.clear();
  });
});
