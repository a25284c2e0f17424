import { measure, NO_TELEMETRY, type Telemetry } from "../core/telemetry.ts";
import { JsonEndpoint } from "../node/json-endpoint.ts";
import { splitCredentials } from "./basic-auth.ts";

/** An RPC endpoint and how to call it. */
export interface RpcOptions {
  /** May hold credentials. */
  readonly rpcUrl: string;
  /** Time for one call, the body of its answer included. */
  readonly timeoutMs: number;
  /** Receives each call's duration and purpose. */
  readonly observer?: {
    readonly telemetry: Telemetry;
    readonly purpose: "permission" | "evidence" | "settlement";
  };
}

/** Largest answer that is read: a receipt or the logs of many blocks. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024;
/** Characters of 32 bytes, `0x` included. */
const WORD_LENGTH = 66;
/** Largest number of calls that one `eth_call` makes. It is limited because chains bound the size of the code. */
const MAX_TOGETHER = 64;
/** Time for which each call is made separately after the RPC failed to execute several calls at once. */
const ASKS_EACH_MS = 60_000;

/** Error with which the RPC answered a call, for example because the call reverts. */
export class RpcError extends Error {
  readonly code: number;
  /** The node's own words, which may hold the account's name: for logs, not for clients. */
  readonly details: string;

  constructor(code: number, details: string) {
    super(isRevertCode(code, details) ? "execution reverted" : `the RPC answered with error ${code}`);
    this.code = code;
    this.details = details;
  }

  /** Returns true if the contract refused the call. */
  get isRevert(): boolean {
    return isRevertCode(this.code, this.details);
  }
}

/** The RPC gave no JSON-RPC answer. */
export class RpcUnanswered extends Error {
  /** HTTP status; undefined when there was none. */
  readonly status: number | undefined;

  constructor(status?: number, cause?: unknown) {
    super("HTTP request failed.", cause === undefined ? {} : { cause });
    this.status = status;
  }
}

/** A call that reads a word of the newest state and is not sent yet. */
interface WaitingCall {
  readonly call: WordCall;
  readonly resolve: (answer: bigint | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** JSON-RPC over kept connections. Never repeats a call. Returns results as they are: hex text and plain objects. */
export class Rpc {
  readonly #endpoint: JsonEndpoint;
  readonly #telemetry: Telemetry;
  readonly #purpose: "permission" | "evidence" | "settlement";
  readonly #onNoAnswer: () => void;
  #waiting: WaitingCall[] = [];
  /** Monotonic time until which each call is made on its own. */
  #asksEachUntil = 0;

  /** @param onNoAnswer called for each call without an answer */
  constructor({ rpcUrl, timeoutMs, observer }: RpcOptions, onNoAnswer: () => void = () => undefined) {
    const { url, headers } = splitCredentials(rpcUrl);
    this.#endpoint = new JsonEndpoint({ url, headers, timeoutMs, maxAnswerBytes: MAX_ANSWER_BYTES });
    this.#telemetry = observer?.telemetry ?? NO_TELEMETRY;
    this.#purpose = observer?.purpose ?? "evidence";
    this.#onNoAnswer = onNoAnswer;
  }

  /** @throws RpcError, RpcUnanswered */
  call(method: string, params: readonly unknown[]): Promise<unknown> {
    const purpose = this.#purpose;
    return measure(
      this.#telemetry,
      {
        histogram: "jobgate_chain_rpc_duration_seconds",
        labels: (result) => ({ purpose, method, outcome: "value" in result ? "ok" : "error" }),
        span: "chain.rpc",
        attributes: { "rpc.method": method, "jobgate.purpose": purpose },
      },
      () => this.#ask(method, params),
    );
  }

  /** Calls a contract at a block: a number, or `{blockHash}`. Returns its raw answer, `0x` for an address without code. */
  async callContract(to: string, data: string, block: bigint | "latest" = "latest"): Promise<string> {
    return asHex(
      await this.call("eth_call", [{ to, data }, typeof block === "bigint" ? toHex(block) : block]),
    );
  }

  /**
   * Calls a contract at a block for one word. Simultaneous calls for the newest state share one RPC call.
   * @returns undefined when the answer is not 32 bytes, or the call reverts
   */
  callForWord(call: WordCall, block: bigint | "latest" = "latest"): Promise<bigint | undefined> {
    if (block !== "latest" || performance.now() < this.#asksEachUntil) return this.#callForWord(call, block);
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.#callAll());
      this.#waiting.push({ call, resolve, reject });
    });
  }

  async #callForWord({ to, data }: WordCall, block: bigint | "latest"): Promise<bigint | undefined> {
    try {
      const answer = await this.callContract(to, data, block);
      return answer.length === WORD_LENGTH ? BigInt(answer) : undefined;
    } catch (error) {
      if (error instanceof RpcError && error.isRevert) return undefined;
      throw error;
    }
  }

  #callAll(): void {
    while (this.#waiting.length > 0) void this.#callTogether(this.#waiting.splice(0, MAX_TOGETHER));
  }

  /** Never rejects. */
  async #callTogether(waiting: readonly WaitingCall[]): Promise<void> {
    const answers = waiting.length === 1 ? undefined : await this.#readTogether(waiting).catch(rejection);
    for (const [i, { call, resolve, reject }] of waiting.entries()) {
      if (answers === undefined) this.#callForWord(call, "latest").then(resolve, reject);
      else if ("error" in answers) reject(answers.error);
      else resolve(answers[i]);
    }
  }

  /** @returns undefined if the RPC does not run such code. Calls are then made separately for a while */
  async #readTogether(waiting: readonly WaitingCall[]): Promise<readonly (bigint | undefined)[] | undefined> {
    const data = wordsCode(waiting.map(({ call }) => call));
    const answer = await this.call("eth_call", [{ data }, "latest"]).catch((error: unknown) => {
      if (isRefusal(error)) return undefined;
      throw error;
    });
    const words = answer === undefined ? undefined : readWords(asHex(answer), waiting.length);
    if (words === undefined) this.#asksEachUntil = performance.now() + ASKS_EACH_MS;
    return words?.answers;
  }

  async #ask(method: string, params: readonly unknown[]): Promise<unknown> {
    try {
      const { status, text } = await this.#endpoint.post(
        JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      );
      return readResult(status, text);
    } catch (error) {
      if (error instanceof RpcError) throw error;
      this.#onNoAnswer();
      throw error instanceof RpcUnanswered ? error : new RpcUnanswered(undefined, error);
    }
  }
}

const rejection = (error: unknown) => ({ error });

function readResult(status: number, text: string): unknown {
  const isOk = status >= 200 && status < 300;
  let answer: { readonly result?: unknown; readonly error?: { code?: unknown; message?: unknown } } | null;
  try {
    answer = JSON.parse(text);
  } catch (cause) {
    throw new RpcUnanswered(isOk ? undefined : status, cause);
  }
  // Some RPCs answer errors with an error status as well.
  const { code, message } = answer?.error ?? {};
  if (typeof code === "number") throw new RpcError(code, String(message ?? ""));
  if (!isOk || answer?.result === undefined) throw new RpcUnanswered(isOk ? undefined : status);
  return answer.result;
}

/**
 * Words that nodes use for a call that the contract ended by a revert, or by a failure that a hostile contract can cause at
 * will.
 */
const ENDED_BY_CONTRACT =
  /execution reverted|gas required exceeds allowance|out ?of ?gas|invalid (opcode|jump)|stack (underflow|limit)|write protection|return data out of bounds|^EVM error/i;

/** Nodes use the code 3, or another code with characteristic words. */
function isRevertCode(code: number, details: string): boolean {
  return code === 3 || ENDED_BY_CONTRACT.test(details);
}

/** Returns true if the RPC, or a proxy before it, refuses exactly this call. It may accept other calls. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof RpcError) return true;
  return error instanceof RpcUnanswered && [400, 413, 422].includes(error.status ?? 0);
}

/** @throws Error when an RPC's value is not bytes in hex */
export function asHex(value: unknown): string {
  if (typeof value === "string" && /^0x[0-9a-fA-F]*$/.test(value)) return value;
  throw new Error("the RPC answered with something other than hex");
}

/** @throws Error when an RPC's value is not a number in hex */
export function asNumber(value: unknown): bigint {
  const hex = asHex(value);
  if (hex === "0x") throw new Error("the RPC answered with no number");
  return BigInt(hex);
}

/** Returns a number as JSON-RPC writes it. */
export function toHex(value: bigint): string {
  return `0x${value.toString(16)}`;
}

/** A call of a contract whose answer is one word. */
export interface WordCall {
  readonly to: string;
  readonly data: string;
}

/** Answers of contracts in one state. */
export interface Words {
  /** Timestamp in Unix seconds that code sees when it runs on this state. */
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
 * Returns creation code of a contract that is never created. As the `data` of an `eth_call`, the code makes the calls
 * and returns the block's timestamp. For each call that succeeds, it also returns 1 and the call's answer. For each
 * other call, it returns 0 and a word without meaning.
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

/**
 * Reads what {@link wordsCode} returned.
 * @returns undefined for any other text, which shows that the RPC does not run such code
 */
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
