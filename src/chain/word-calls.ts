/** A call of a contract whose answer is one word. */
export interface WordCall {
  readonly to: string;
  readonly data: string;
}

/** Answers of contracts in one state. */
export interface Words {
  /** Unix seconds of the block that the state belongs to, as code in that block sees it. */
  readonly timestamp: bigint;
  /** Answers in the order of the calls; undefined for a contract that is missing, fails, or does not return one word. */
  readonly answers: readonly (bigint | undefined)[];
}

const WORD_BYTES = 32;
const WORD_DIGITS = 64;
/** Bytes of the code that makes one call. */
export const CALL_BYTES = 53;
const END_BYTES = 10;

/**
 * Returns creation code of a contract that is never created: as the `data` of an `eth_call`, it makes the calls and returns
 * the block's timestamp, and for each call 1 and its answer, or 0 and anything.
 */
export function wordsCode(calls: readonly WordCall[]): string {
  const size = WORD_BYTES * (1 + 2 * calls.length);
  const data = calls.map((call) => call.data.slice(2));
  let at = CALL_BYTES * calls.length + END_BYTES;
  const code = calls.map(({ to }, i) => {
    const length = (data[i] as string).length / 2;
    const from = at;
    at += length;
    const flag = WORD_BYTES * (1 + 2 * i);
    return [
      `61${hex(length)}61${hex(from)}61${hex(size)}39`, // CODECOPY: memory[size..) = the call's data
      `602061${hex(flag + WORD_BYTES)}`, // output: the word after the flag
      `61${hex(length)}61${hex(size)}`, // input
      `73${to.slice(2)}5afa`, // STATICCALL with all gas
      "3d60201416", // whether it succeeded with 32 bytes
      `61${hex(flag)}52`, // memory[flag..) = that
    ].join("");
  });
  const end = [
    "42600052", // memory[0..32) = TIMESTAMP
    `61${hex(size)}6000f3`, // RETURN memory[0..size)
  ];
  return `0x${[...code, ...end, ...data].join("")}`;
}

/** Reads what {@link wordsCode} returned. @returns undefined for anything else: the RPC does not run such code */
export function readWords(answer: string, count: number): Words | undefined {
  const digits = answer.slice(2);
  if (digits.length !== WORD_DIGITS * (1 + 2 * count)) return undefined;
  const word = (i: number) => BigInt(`0x${digits.slice(i * WORD_DIGITS, (i + 1) * WORD_DIGITS)}`);
  const answers = Array.from({ length: count }, (_, i) =>
    word(1 + 2 * i) === 1n ? word(2 + 2 * i) : undefined,
  );
  return { timestamp: word(0), answers };
}

/** Returns a number as the operand of PUSH2. */
function hex(number: number): string {
  return number.toString(16).padStart(4, "0");
}
