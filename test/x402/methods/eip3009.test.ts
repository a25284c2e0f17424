import fc from "fast-check";
import {
  bytesToHex,
  encodeAbiParameters,
  encodeEventTopics,
  encodeFunctionData,
  type Hex,
  type Log,
  parseAbi,
  parseEventLogs,
} from "viem";
import { describe, expect, it, test } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import {
  EIP3009_METHOD,
  Eip3009Authorization,
  EVENT_TOPICS,
  outcomeOf,
  type TokenEvent,
  tokenEvents,
} from "../../../src/x402/methods/eip3009.ts";
import type { Method } from "../../../src/x402/methods/method.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { type RawLog, TRANSFER_TOPIC } from "../../../src/x402/settlement/chain-logs.ts";

const ABI = parseAbi([
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
]);
const TOKEN = `0x${"ab".repeat(20)}` as const;
const CHECKSUMMED_TOKEN = "0xABaBaBaBABabABabAbAbABAbABabababaBaBABaB";

const address = (digit: string) => `0x${digit.repeat(40)}` as const;
const nonce = (digit: string) => `0x${digit.repeat(64)}` as const;
const payer = address("a");
const payTo = address("b");

const intent = {
  key: { network: "eip155:1", asset: TOKEN, payer, nonce: nonce("1") },
  payTo,
  amount: "100",
  payload: "{}",
  validBefore: 1,
} as PaymentIntent;

const log = (topics: unknown, data: Hex = "0x", from: Hex = TOKEN): Log =>
  ({ address: from, topics, data }) as unknown as Log;

function used(digit: string, { by = payer, from = TOKEN as Hex } = {}): Log {
  const args = { authorizer: by, nonce: nonce(digit) };
  return log(encodeEventTopics({ abi: ABI, eventName: "AuthorizationUsed", args }), "0x", from);
}

function transfer({ from = payer, to = payTo, value = 100n, of = TOKEN as Hex } = {}): Log {
  const topics = encodeEventTopics({ abi: ABI, eventName: "Transfer", args: { from, to } });
  return log(topics, encodeAbiParameters([{ type: "uint256" }], [value]), of);
}

const outcome = (logs: readonly RawLog[], payment: PaymentIntent) =>
  outcomeOf(nonce("f"), logs, payment).kind;

const hex = (minBytes: number, maxBytes = minBytes) =>
  fc.uint8Array({ minLength: minBytes, maxLength: maxBytes }).map((bytes) => bytesToHex(bytes));
/** Mostly words as tokens log them, and some of another size. */
const word = fc.oneof({ weight: 8, arbitrary: hex(32) }, { weight: 1, arbitrary: hex(0, 40) });
const anyLog: fc.Arbitrary<RawLog> = fc.record({
  address: fc.constantFrom(TOKEN, CHECKSUMMED_TOKEN, `0x${"cd".repeat(20)}`),
  topics: fc
    .tuple(
      fc.oneof(
        { weight: 8, arbitrary: fc.constantFrom(TRANSFER_TOPIC, ...Object.values(EVENT_TOPICS)) },
        { weight: 1, arbitrary: word },
      ),
      fc.array(word, { maxLength: 3 }),
    )
    .map(([signature, words]) => [signature, ...words]),
  data: fc.oneof(word, hex(32, 70), fc.constant("0x")),
});

/** The plain way. */
function viemEvents(logs: readonly RawLog[]): TokenEvent[] {
  const own = logs.filter(({ address }) => address.toLowerCase() === TOKEN);
  return parseEventLogs({ abi: ABI, logs: own as unknown as Log[] }).map((event): TokenEvent => {
    if (event.eventName === "Transfer") {
      const { from, to, value } = event.args;
      return { name: "Transfer", from: from.toLowerCase(), to: to.toLowerCase(), value };
    }
    const { authorizer, nonce } = event.args;
    return { name: event.eventName, authorizer: authorizer.toLowerCase(), nonce: nonce.toLowerCase() };
  });
}

test("Logs hold the events that viem finds in them, in the same order", () => {
  fc.assert(
    fc.property(fc.array(anyLog, { maxLength: 8 }), (logs) => {
      expect(tokenEvents(logs, TOKEN)).toEqual(viemEvents(logs));
    }),
    { numRuns: 500 },
  );
});

test("The call of authorizationState is the call that viem encodes", () => {
  fc.assert(
    fc.property(hex(20), hex(32), (payer, nonce) => {
      const args = [payer as Hex, nonce as Hex] as const;
      const key = { network: "eip155:1", asset: TOKEN, payer, nonce };
      const { nonceCall } = new Eip3009Authorization({ ...intent, key });
      const data = encodeFunctionData({ abi: ABI, functionName: "authorizationState", args });
      expect(nonceCall).toEqual({ to: TOKEN, data });
    }),
  );
});

test("Only 0 and 1 are a boolean", () => {
  const authorization = new Eip3009Authorization(intent);
  expect([0n, 1n, 2n, 2n ** 255n].map((answer) => authorization.isUsed(answer))).toEqual([
    false,
    true,
    undefined,
    undefined,
  ]);
});

describe("A transaction that used one authorization of the payer", () => {
  it.each([
    ["the transfer after its use", [used("1"), transfer()]],
    ["the transfer before its use, as some tokens log it", [transfer(), used("1")]],
    [
      "other logs around it",
      [transfer({ value: 1n }), used("1"), transfer(), transfer({ of: address("d") })],
    ],
    [
      "an authorization of someone else in the same transaction",
      [used("1"), transfer(), used("2", { by: address("e") })],
    ],
  ])("matches with %s", (_what, logs) => {
    expect(outcome(logs, intent)).toBe("paid");
  });

  it.each([
    ["no transfer", [used("1")]],
    ["a unit short", [used("1"), transfer({ value: 99n })]],
    ["a unit over", [used("1"), transfer({ value: 101n })]],
    ["another recipient", [used("1"), transfer({ to: address("e") })]],
    ["another payer", [used("1"), transfer({ from: address("e") })]],
    ["the amount in two parts", [used("1"), transfer({ value: 60n }), transfer({ value: 40n })]],
    ["the transfer of another token", [used("1"), transfer({ of: address("d") })]],
  ])("does not match with %s", (_what, logs) => {
    expect(outcome(logs, intent)).toBe("used_otherwise");
  });
});

describe("A transaction that used several authorizations of the payer", () => {
  it("Counts one transfer only for the authorization whose use it follows", () => {
    const logs = [used("1"), transfer({ to: address("e") }), used("2"), transfer()];
    const second = { ...intent, key: { ...intent.key, nonce: nonce("2") } };
    expect([outcome(logs, intent), outcome(logs, second)]).toEqual(["used_otherwise", "paid"]);
  });

  it("Counts two transfers for two payments", () => {
    const logs = [used("1"), transfer(), used("2"), transfer()];
    const second = { ...intent, key: { ...intent.key, nonce: nonce("2") } };
    expect([outcome(logs, intent), outcome(logs, second)]).toEqual(["paid", "paid"]);
  });

  it("Is ambiguous when the logs do not show which transfer belongs to which authorization", () => {
    const logs = [used("2"), used("1"), used("3"), transfer()];
    expect(outcome(logs, intent)).toBe("ambiguous");
    const last = [transfer(), used("2"), used("1")];
    expect(outcome(last, intent)).toBe("ambiguous");
  });
});

test("A payload with the keys of EIP-3009 alone is shown to no other method, and a payload with more keys is", () => {
  const shown: object[] = [];
  const other = { name: "other", owns: (payload: object) => shown.push(payload) > 0 } as unknown as Method;
  const methods = new Methods([other]);
  expect(methods.ofPayload({ signature: "0x", authorization: {} })).toBe(EIP3009_METHOD);
  expect(shown).toEqual([]);
  const both = { authorization: {}, permit2Authorization: {} };
  expect(methods.ofPayload(both)).toBe(other);
  expect(shown).toEqual([both]);
});
