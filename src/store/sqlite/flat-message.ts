/**
 * A list of values in a few flat arrays, which one thread passes to another. A structured clone writes and reads the name of
 * each field, which takes 2.7 µs for an operation and its bytes, while this form takes 0.3 µs.
 */
export interface FlatMessage {
  readonly numbers: Float64Array;
  /** Distinct texts. */
  readonly texts: readonly string[];
  /** All byte arrays, one after the other. */
  readonly bytes: Uint8Array;
  /** Values without a flat form, which are cloned. */
  readonly others: readonly unknown[];
}

/** Bytes up to which copying a message takes less than handing over its buffers. */
const MAX_COPIED_BYTES = 4 * 1024;

/** Returns the buffers of a message that are transferred instead of copied. */
export function buffersOf({ numbers, bytes }: FlatMessage): ArrayBuffer[] {
  if (bytes.byteLength <= MAX_COPIED_BYTES) return [];
  return [numbers.buffer as ArrayBuffer, bytes.buffer as ArrayBuffer];
}

/** Writes values one after the other. */
export class FlatWriter {
  readonly #numbers: number[] = [];
  readonly #texts = new Map<string, number>();
  readonly #arrays: Uint8Array[] = [];
  readonly #others: unknown[] = [];

  number(value: number): void {
    this.#numbers.push(value);
  }

  boolean(value: boolean): void {
    this.#numbers.push(value ? 1 : 0);
  }

  text(value: string): void {
    let index = this.#texts.get(value);
    if (index === undefined) {
      index = this.#texts.size;
      this.#texts.set(value, index);
    }
    this.#numbers.push(index);
  }

  bytes(value: Uint8Array): void {
    this.#numbers.push(value.byteLength);
    this.#arrays.push(value);
  }

  /** @param value a value without byte arrays, because a view of a byte array would be cloned with its whole buffer */
  other(value: unknown): void {
    this.#others.push(value);
  }

  message(): FlatMessage {
    return {
      numbers: Float64Array.from(this.#numbers),
      texts: [...this.#texts.keys()],
      bytes: joined(this.#arrays),
      others: this.#others,
    };
  }
}

/** Reads values in the order in which they were written. */
export class FlatReader {
  readonly #message: FlatMessage;
  #numbersRead = 0;
  #bytesRead = 0;
  #othersRead = 0;

  constructor(message: FlatMessage) {
    this.#message = message;
  }

  number(): number {
    const value = this.#message.numbers[this.#numbersRead];
    if (value === undefined) throw new Error("a message between threads ended too early");
    this.#numbersRead += 1;
    return value;
  }

  boolean(): boolean {
    return this.number() === 1;
  }

  text(): string {
    const value = this.#message.texts[this.number()];
    if (value === undefined) throw new Error("a message between threads lacks a text");
    return value;
  }

  /** Returns a view into the message. */
  bytes(): Uint8Array {
    const start = this.#bytesRead;
    this.#bytesRead += this.number();
    return this.#message.bytes.subarray(start, this.#bytesRead);
  }

  other(): unknown {
    this.#othersRead += 1;
    return this.#message.others[this.#othersRead - 1];
  }
}

/** Copies byte arrays one after the other into a new buffer, which can be transferred. */
function joined(arrays: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const array of arrays) length += array.byteLength;
  const all = new Uint8Array(length);
  let offset = 0;
  for (const array of arrays) {
    all.set(array, offset);
    offset += array.byteLength;
  }
  return all;
}
