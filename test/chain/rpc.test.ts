import { afterEach, beforeAll, expect, test } from "vitest";
import { Rpc } from "../../src/chain/rpc.ts";
import { accounts } from "../helpers/accounts.ts";
import { borrowAnvil } from "../helpers/anvil.ts";
import { type FaultRule, startFaultProxy } from "../helpers/http-proxy.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { deployUsdc, type Token } from "../helpers/usdc.ts";

const anvil = startBeforeAll(borrowAnvil);
const proxy = startBeforeAll(() => startFaultProxy({ target: anvil.rpcUrl }));
let usdc: Token;
beforeAll(async () => {
  usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_234n);
  await usdc.mint(accounts.payTo.address, 99n);
});
afterEach(() => {
  proxy.clear();
  proxy.forget();
});

const open = (timeoutMs = 30_000) => new Rpc({ rpcUrl: proxy.url, timeoutMs });
const word = (hex: string) => hex.slice(2).padStart(64, "0");
const balance = (account: string) => ({ to: usdc.address, data: `0x70a08231${word(account)}` });
/** `authorizationState` of a nonce that was never used. */
const unused = () => ({
  to: usdc.address,
  data: `0xe94a0102${word(accounts.payer.address)}${"7".repeat(64)}`,
});
const missing = () => ({ to: `0x${"9".repeat(40)}`, data: "0x70a08231" });
/** A function that the token lacks. */
const reverting = () => ({ to: usdc.address, data: "0xdeadbeef" });
/** `name()`, whose answer is longer than a word. */
const named = () => ({ to: usdc.address, data: "0x06fdde03" });

const both = (rpc: Rpc) =>
  Promise.all([accounts.payer, accounts.payTo].map(({ address }) => rpc.callForWord(balance(address))));
const isTogether: FaultRule["when"] = ({ body }) => !body.includes('"to"');
const answering = (answer: object) =>
  ({ kind: "answer", status: 200, body: { jsonrpc: "2.0", id: 1, ...answer } }) as const;

test("Calls of contracts at the same time are one RPC call, and each gets its own answer", async () => {
  const calls = [balance(accounts.payer.address), missing(), unused(), reverting(), named()];
  const rpc = open();
  const ask = () =>
    Promise.all([...calls, balance(accounts.payTo.address)].map((call) => rpc.callForWord(call)));
  expect(await ask()).toEqual([1_234n, undefined, 0n, undefined, undefined, 99n]);
  expect(proxy.count("eth_call")).toBe(1);
  await ask();
  expect(proxy.count("eth_call")).toBe(2);
});

test("A call that comes alone is an ordinary one", async () => {
  const rpc = open();
  proxy.add({ rpcMethod: "eth_call", when: isTogether, fault: { kind: "cut" } });
  expect(await rpc.callForWord(balance(accounts.payer.address))).toBe(1_234n);
  expect(await rpc.callForWord(missing())).toBeUndefined();
  expect(await rpc.callForWord(reverting())).toBeUndefined();
});

test("A hundred calls at the same time are two RPC calls", async () => {
  const rpc = open();
  const asked = Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? accounts.payer : accounts.payTo));
  const answers = await Promise.all(asked.map(({ address }) => rpc.callForWord(balance(address))));
  expect(answers).toEqual(asked.map((one) => (one === accounts.payer ? 1_234n : 99n)));
  expect(proxy.count("eth_call")).toBe(2);
});

test("A call at a block of the past is on its own, and answers for that block", async () => {
  const before = await anvil.client.getBlockNumber();
  await usdc.mint(accounts.payTo.address, 1n);
  const rpc = open();
  const call = balance(accounts.payTo.address);
  expect(await Promise.all([rpc.callForWord(call, before), rpc.callForWord(call)])).toEqual([99n, 100n]);
  expect(proxy.count("eth_call")).toBe(2);
  await usdc.transfer(accounts.payTo, accounts.payer.address, 1n);
});

test.each([
  ["refuses them", answering({ error: { code: -32_602, message: "missing field to" } })],
  ["answers with nothing", answering({ result: "0x" })],
  ["answers with something else", answering({ result: `0x${"0".repeat(64)}` })],
])(
  "An RPC that %s when calls come together gets each call on its own, and so it gets the later calls",
  async (_how, fault) => {
    proxy.add({ rpcMethod: "eth_call", when: isTogether, fault });
    const rpc = open();
    for (const count of [3, 5]) {
      const [ofPayer] = await both(rpc);
      expect(ofPayer).toBeGreaterThanOrEqual(1_234n);
      expect(proxy.count("eth_call")).toBe(count);
    }
  },
);

test.each([
  ["no answer", { kind: "cut" }],
  ["an answer that is no hex", answering({ result: "0xzz" })],
] as const)("Calls that come together all fail with %s", async (_what, fault) => {
  proxy.add({ rpcMethod: "eth_call", times: 1, fault });
  const rpc = open();
  const ends = await Promise.allSettled([rpc.callForWord(missing()), rpc.callForWord(reverting())]);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(proxy.count("eth_call")).toBe(1);
});
