import { toFunctionSelector } from "viem";
import { CHANNELS_CONTRACT } from "./hashes.ts";
import type { ChannelState } from "./store/chain-rules.ts";

/** Views of the contract that return the state of one channel, with the number of words that each returns. */
const VIEWS = [
  { selector: toFunctionSelector("channels(bytes32)"), words: 2 },
  { selector: toFunctionSelector("pendingWithdrawals(bytes32)"), words: 2 },
  { selector: toFunctionSelector("refundNonce(bytes32)"), words: 1 },
] as const;
const WORDS = 5;
const WORD_BYTES = 32;
const WORD_DIGITS = 64;
/** Bytes of a call's data, and of the memory that is kept for it. */
const INPUT_BYTES = 36;
const OUTPUT_AT = 64;
/** Bytes of the code that makes one call, and of the code after all calls. */
const CALL_BYTES = 50;
const RETURN_BYTES = 6;
const END_BYTES = RETURN_BYTES + 6;

/**
 * Returns creation code of a contract that is never created: as the `data` of an `eth_call`, it reads channels and returns
 * their words, or reverts if a view fails.
 */
export function channelsCode(channelIds: readonly string[]): string {
  const count = channelIds.length * VIEWS.length;
  const failure = CALL_BYTES * count + RETURN_BYTES;
  let output = OUTPUT_AT;
  const calls = channelIds.flatMap((_, channel) =>
    VIEWS.map(({ words }, view) => {
      const input = CALL_BYTES * count + END_BYTES + INPUT_BYTES * (channel * VIEWS.length + view);
      const size = words * WORD_BYTES;
      const at = output;
      output += size;
      return [
        `6024${push2(input)}600039`, // CODECOPY: memory[0..36) = the call's data
        `60${hex(size, 1)}${push2(at)}60246000`, // output and input
        `73${CHANNELS_CONTRACT.slice(2)}5afa`, // STATICCALL with all gas
        `3d60${hex(size, 1)}1416`, // whether it succeeded with the words
        `15${push2(failure)}57`, // JUMPI to the failure if not
      ].join("");
    }),
  );
  const end = [
    `${push2(output - OUTPUT_AT)}6040f3`, // RETURN memory[64..)
    "5b60006000fd", // JUMPDEST, REVERT
  ];
  const inputs = channelIds.flatMap((id) => VIEWS.map(({ selector }) => selector.slice(2) + id.slice(2)));
  return `0x${[...calls, ...end, ...inputs].join("")}`;
}

/** Reads what {@link channelsCode} returned. @returns undefined for other data */
export function channelsIn(answer: string, count: number): ChannelState[] | undefined {
  const digits = answer.slice(2);
  if (digits.length !== WORD_DIGITS * WORDS * count) return undefined;
  return Array.from({ length: count }, (_, channel) => {
    const word = (i: number) => {
      const at = (channel * WORDS + i) * WORD_DIGITS;
      return BigInt(`0x${digits.slice(at, at + WORD_DIGITS)}`);
    };
    return {
      balance: String(word(0)),
      totalClaimed: String(word(1)),
      withdrawAt: Number(word(3)),
      refundNonce: String(word(4)),
    };
  });
}

function push2(number: number): string {
  return `61${hex(number, 2)}`;
}

function hex(number: number, bytes: number): string {
  return number.toString(16).padStart(2 * bytes, "0");
}
