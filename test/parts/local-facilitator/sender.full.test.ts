import { type Hex, parseGwei } from "viem";
import type { PrivateKeyAccount } from "viem/accounts";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { readSigned } from "../../../src/parts/transactions/account.ts";
import type { SettlementAnswer } from "../../../src/x402/facilitators/facilitator.ts";
import { minedReceipt } from "../../helpers/anvil.ts";
import { type SettlerChainHarness, type SettlerHarness, startSettlerChain } from "./harness.ts";

let chain: SettlerChainHarness;

beforeAll(async () => {
  chain = await startSettlerChain();
});
afterEach(() => chain.rpc.clear());
afterAll(() => chain?.stop());

async function startSettler(...options: Parameters<SettlerChainHarness["startSettler"]>) {
  const settler = await chain.startSettler(...options);
  onTestFinished(() => settler.stop());
  return { settler, account: settler.accounts[0] as PrivateKeyAccount };
}

/** Waits until the journal holds this many signed transactions that are not final. */
async function untilSent(settler: SettlerHarness, count = 1) {
  await expect.poll(async () => (await settler.sent()).length).toBe(count);
  return (await settler.sent()).map(({ signed }) => signed as NonNullable<typeof signed>);
}

/** The bytes that were broadcast, in order. */
function broadcasts(): string[] {
  return chain.rpc.requests.flatMap(({ rpcMethods, body }) =>
    rpcMethods.includes("eth_sendRawTransaction") ? [JSON.parse(body.toString()).params[0] as string] : [],
  );
}

describe("A settlement whose broadcast was lost", () => {
  it("is sent with the same bytes after a restart", async () => {
    const { settler, account } = await startSettler({ timeoutMs: 1_000 });
    const request = await chain.request();
    chain.rpc.add({ rpcMethod: "eth_sendRawTransaction", fault: { kind: "cut" } });
    chain.rpc.forget();
    // A busy machine may not have signed it by then.
    expect((await settler.settle(request)).kind).not.toBe("success");
    expect(await chain.settled([request])).toBe(0);
    await expect.poll(broadcasts).not.toEqual([]);

    chain.rpc.clear();
    await settler.restart();
    await expect.poll(() => settler.settle(request)).toMatchObject({ kind: "success" });
    expect(broadcasts().length).toBeGreaterThan(1);
    expect(new Set(broadcasts()).size).toBe(1);
    expect(await chain.minedBy(account)).toBe(1);
  });

  it.each(["lose-answer", "no-answer"] as const)(
    "is sent once although the node's answer is lost: %s",
    async (kind) => {
      const { settler, account } = await startSettler();
      chain.rpc.add({ rpcMethod: "eth_sendRawTransaction", times: 1, fault: { kind } });
      const requests = [await chain.request(), await chain.request()];
      for (const request of requests)
        expect(await settler.settle(request)).toMatchObject({ kind: "success" });
      expect(await chain.minedBy(account)).toBe(2);
    },
  );

  it.each([
    "already known",
    "nonce too low",
    "replacement transaction underpriced",
    "insufficient funds for gas * price + value",
  ])("is mined although the node says: %s", async (message) => {
    const { settler, account } = await startSettler();
    const error = { jsonrpc: "2.0", id: 1, error: { code: -32000, message } };
    chain.rpc.add({
      rpcMethod: "eth_sendRawTransaction",
      times: 1,
      fault: {
        kind: "change",
        change: (answer) => {
          const body = Buffer.from(JSON.stringify(error));
          return { ...answer, headers: { "content-length": String(body.length) }, body };
        },
      },
    });
    expect(await settler.settle(await chain.request())).toMatchObject({ kind: "success" });
    expect(await chain.minedBy(account)).toBe(1);
  });
});

describe("Fees", () => {
  it("are raised at the same nonce while blocks pass without the settlement", async () => {
    const { settler, account } = await startSettler();
    const request = await chain.request();
    await chain.withoutMining(async () => {
      const answer = settler.settle(request);
      const [first] = await untilSent(settler);
      const { fees } = readSigned(first?.raw ?? "");
      await mineAbove(fees.maxFeePerGas * 2n, 8);
      await expect.poll(async () => (await settler.sent())[0]?.signed?.earlierHashes).toEqual([first?.hash]);
      const replaced = (await settler.sent())[0]?.signed;
      expect(replaced?.nonce).toBe(first?.nonce);
      const raised = readSigned(replaced?.raw ?? "").fees;
      expect(raised.maxFeePerGas).toBeGreaterThan((fees.maxFeePerGas * 9n) / 8n);
      expect(raised.maxPriorityFeePerGas).toBeGreaterThan((fees.maxPriorityFeePerGas * 9n) / 8n);

      const mined = async () => {
        await mineAbove(fees.maxFeePerGas * 2n, 1);
        return chain.minedBy(account);
      };
      await expect.poll(mined, { interval: 200 }).toBe(1);
      expect(await answer).toMatchObject({ kind: "success", transaction: replaced?.hash });
    });
    expect(await chain.minedBy(account)).toBe(1);
  });

  it("stop at the cap with one warning, and the settlement is mined once they suffice", async () => {
    const base = (await chain.anvil.client.getBlock()).baseFeePerGas ?? 0n;
    const maxFeePerGasWei = base * 2n + parseGwei("1");
    const { settler, account } = await startSettler({ maxFeePerGasWei });
    const request = await chain.request();
    const warning = "a settlement waits to be mined at max_fee_per_gas_gwei";
    await chain.withoutMining(async () => {
      const answer = settler.settle(request);
      const [first] = await untilSent(settler);
      await mineAbove(maxFeePerGasWei * 2n, 8);
      await expect.poll(() => settler.messages).toContain(warning);
      await mineAbove(maxFeePerGasWei * 2n, 8);
      expect((await settler.sent())[0]?.signed?.hash).toBe(first?.hash);
      // anvil forgets transactions below the base fee, which nodes do too: they are broadcast again.
      const mined = async () => {
        await mineAbove(base, 1);
        return chain.minedBy(account);
      };
      await expect.poll(mined, { interval: 200 }).toBe(1);
      expect(await answer).toMatchObject({ kind: "success", transaction: first?.hash });
    });
    expect(settler.messages.filter((message) => message === warning)).toHaveLength(1);
    expect(await chain.minedBy(account)).toBe(1);
  });

  it("above the cap keep settlements queued, without a nonce", async () => {
    const { settler } = await startSettler({ maxFeePerGasWei: parseGwei("3") });
    const request = await chain.request();
    await chain.withoutMining(async () => {
      await mineAbove(parseGwei("50"), 1);
      const answer = settler.settle(request);
      await expect
        .poll(() => settler.messages)
        .toContain("the base fee is above max_fee_per_gas_gwei: settlements wait");
      expect(await settler.sent()).toEqual([]);
      await mineAbove(parseGwei("1"), 1);
      await chain.untilPending(1);
      await mineAbove(parseGwei("1"), 1);
      expect(await answer).toMatchObject({ kind: "success" });
    });
  });
});

it("Of settlements that waited, the one that ends first is sent first", async () => {
  const { settler } = await startSettler({ maxFeePerGasWei: parseGwei("3") });
  const requests = await Promise.all([3_000, 1_000, 2_000].map((validSecs) => chain.request({ validSecs })));
  await chain.withoutMining(async () => {
    await mineAbove(parseGwei("50"), 1);
    const answers = requests.map((request) => settler.settle(request));
    await expect.poll(async () => (await settler.queued()).length).toBe(3);
    await mineAbove(parseGwei("1"), 1);
    await chain.untilPending(3);
    const sent = (await settler.sent()).toSorted((a, b) => (a.signed?.nonce ?? 0) - (b.signed?.nonce ?? 0));
    const ends = sent.map(({ validBefore = 0 }) => validBefore);
    expect(ends).toEqual(ends.toSorted());
    await mineAbove(parseGwei("1"), 1);
    for (const answer of answers) expect(await answer).toMatchObject({ kind: "success" });
  });
});

describe("No nonce is left out", () => {
  it.each(["refused", "answer lost"] as const)("after a write to the journal: %s", async (fault) => {
    const { settler, account } = await startSettler();
    settler.failNextWrite(fault);
    const requests = await Promise.all([chain.request(), chain.request(), chain.request()]);
    const answers = await Promise.all(requests.map((request) => settler.settle(request)));
    expect(answers.map(({ kind }) => kind)).toEqual(["success", "success", "success"]);
    expect(await chain.minedBy(account)).toBe(3);
  });

  it("after an estimate that the node refused", async () => {
    const { settler, account } = await startSettler();
    chain.rpc.add({
      rpcMethod: "eth_estimateGas",
      times: 1,
      fault: {
        kind: "answer",
        status: 200,
        body: { jsonrpc: "2.0", id: 1, error: { code: -32005, message: "limit exceeded" } },
      },
    });
    const requests = await Promise.all([chain.request(), chain.request()]);
    const answers = await Promise.all(requests.map((request) => settler.settle(request)));
    expect(answers.map(({ kind }) => kind)).toEqual(["success", "success"]);
    expect(await chain.minedBy(account)).toBe(2);
  });
});

describe("A key that is used elsewhere", () => {
  it("continues after the foreign transactions", async () => {
    const { settler, account } = await startSettler();
    expect(await settler.settle(await chain.request())).toMatchObject({ kind: "success" });
    await sendForeign(account);
    expect(await settler.settle(await chain.request())).toMatchObject({ kind: "success" });
    expect(await chain.minedBy(account)).toBe(3);
  });

  it("gives a settlement that lost its nonce a new one, once the chain shows the other transaction", async () => {
    const { settler, account } = await startSettler();
    const request = await chain.request();
    chain.rpc.add({ rpcMethod: "eth_sendRawTransaction", fault: { kind: "cut" } });
    const answer = settler.settle(request);
    const [first] = await untilSent(settler);
    await sendForeign(account);
    expect(await chain.minedBy(account)).toBe(1);
    chain.rpc.clear();
    await chain.anvil.client.mine({ blocks: 13 });
    expect(await answer).toMatchObject({ kind: "success" });
    expect(settler.messages).toContain(
      "another program sends with a settler's key: a settlement lost its nonce and is sent again",
    );
    expect((await settler.sent())[0]?.signed?.nonce).toBe((first?.nonce ?? 0) + 1);
    expect(await chain.minedBy(account)).toBe(2);
  });
});

it("A settlement whose block is reorganised is sent again, and final once its block is deep", async () => {
  const { settler, account } = await startSettler();
  const { client } = chain.anvil;
  const request = await chain.request();
  const snapshot = await client.snapshot();
  const first = (await settler.settle(request)) as SettlementAnswer & { transaction: Hex };
  await chain.withoutMining(async () => {
    await client.revert({ id: snapshot });
    expect(await chain.settled([request])).toBe(0);
  });
  await expect.poll(() => chain.settled([request])).toBe(1);
  // In another block.
  const again = { ...first, blockNumber: expect.stringMatching(/^[0-9]+$/) };
  expect(await settler.settle(request)).toEqual(again);
  expect(await chain.minedBy(account)).toBe(1);

  expect(await settler.sent()).toHaveLength(1);
  await client.mine({ blocks: 13 });
  await expect.poll(() => settler.sent()).toEqual([]);
  expect(await settler.settle(request)).toEqual(again);
});

/** Mines blocks that each cost at least so much. */
async function mineAbove(baseFeePerGas: bigint, blocks: number): Promise<void> {
  for (let mined = 0; mined < blocks; mined += 1) {
    await chain.anvil.client.setNextBlockBaseFeePerGas({ baseFeePerGas });
    await chain.anvil.client.mine({ blocks: 1 });
  }
}

/** Sends a transaction with a settler's key, as another program would. */
async function sendForeign(account: PrivateKeyAccount): Promise<void> {
  const { client } = chain.anvil;
  const raw = await account.signTransaction({
    type: "eip1559",
    chainId: chain.anvil.chainId,
    nonce: await chain.minedBy(account),
    to: account.address,
    gas: 21_000n,
    maxFeePerGas: parseGwei("200"),
    maxPriorityFeePerGas: parseGwei("2"),
  });
  const hash = await client.sendRawTransaction({ serializedTransaction: raw });
  await minedReceipt(client, { anvil: chain.anvil, hash });
}
