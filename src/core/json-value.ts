/** A value in a JSON text: a number as it is written, a decoded string, or a value of another kind. */
export type JsonValue =
  | { readonly kind: "number"; readonly text: string }
  | { readonly kind: "string"; readonly text: string }
  | { readonly kind: "other" };

/** Value that a JSON text has at a pointer, or the reason why it is not read. */
type Found = { readonly value: JsonValue | undefined } | { readonly problem: string };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

const INDEX = /^(0|[1-9][0-9]{0,15})$/;

/**
 * Finds the value at a JSON pointer. `JSON.parse` does not suffice, because it turns numbers into doubles, and if a key
 * is repeated it keeps the last value, while other parsers keep the first.
 * @param pointer its tokens, decoded
 */
export function findInJson(text: string, pointer: readonly string[]): Found {
  try {
    JSON.parse(text);
  } catch {
    return { problem: "is not JSON" };
  }
  return new JsonScanner(text).find(pointer);
}

/** Reads a text that is known to be JSON. */
class JsonScanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  find(pointer: readonly string[]): Found {
    for (const token of pointer) {
      this.#skipSpace();
      const first = this.#code();
      let starts: readonly number[] = [];
      if (first === OPEN_BRACE) {
        const members = this.#membersNamed(token);
        if (members.hasOtherCase) return { problem: "has a key that differs from it in letter case alone" };
        starts = members.starts;
      } else if (first === OPEN_BRACKET) starts = this.#elementAt(token);
      const [start, ...more] = starts;
      if (start === undefined) return { value: undefined };
      if (more.length > 0) return { problem: "is there more than once" };
      this.#at = start;
    }
    this.#skipSpace();
    return { value: this.#value() };
  }

  /**
   * Returns the positions at which the values of an object's members with this name start.
   * @returns `hasOtherCase` is true if a name differs in letter case alone: some programs treat the two names as equal
   */
  #membersNamed(name: string): { readonly starts: readonly number[]; readonly hasOtherCase: boolean } {
    const starts: number[] = [];
    const folded = foldCase(name);
    let hasOtherCase = false;
    this.#at++;
    for (;;) {
      this.#skipSpace();
      if (this.#code() === CLOSE_BRACE) return { starts, hasOtherCase };
      const start = this.#at;
      this.#skipString();
      const found = this.#decoded(start);
      const isNamed = found === name;
      if (!isNamed && foldCase(found) === folded) hasOtherCase = true;
      this.#skipSpace();
      this.#at++;
      this.#skipSpace();
      if (isNamed) starts.push(this.#at);
      this.#skipValue();
      this.#skipSpace();
      if (this.#code() === COMMA) this.#at++;
    }
  }

  #elementAt(token: string): readonly number[] {
    if (!INDEX.test(token)) return [];
    this.#at++;
    for (let left = Number(token); ; left--) {
      this.#skipSpace();
      if (this.#code() === CLOSE_BRACKET) return [];
      if (left === 0) return [this.#at];
      this.#skipValue();
      this.#skipSpace();
      if (this.#code() === COMMA) this.#at++;
    }
  }

  #value(): JsonValue {
    const start = this.#at;
    const first = this.#code();
    if (first === QUOTE) {
      this.#skipString();
      return { kind: "string", text: this.#decoded(start) };
    }
    if (!isOfNumber(first)) return { kind: "other" };
    while (isOfNumber(this.#code())) this.#at++;
    return { kind: "number", text: this.#text.slice(start, this.#at) };
  }

  #decoded(start: number): string {
    const raw = this.#text.slice(start + 1, this.#at - 1);
    return raw.includes("\\") ? JSON.parse(`"${raw}"`) : raw;
  }

  #skipValue(): void {
    let depth = 0;
    do {
      const code = this.#code();
      if (code === QUOTE) this.#skipString();
      else {
        if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
        else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
        else if (depth === 0) {
          this.#skipWord();
          return;
        }
        this.#at++;
      }
    } while (depth > 0);
  }

  /** Skips a number, `true`, `false` or `null`. */
  #skipWord(): void {
    for (let code = this.#code(); isOfNumber(code) || isLetter(code); code = this.#code()) this.#at++;
  }

  #skipString(): void {
    do this.#at = this.#text.indexOf('"', this.#at + 1);
    while (this.#isEscaped());
    this.#at++;
  }

  /** Reports whether an odd number of backslashes stands before this place. */
  #isEscaped(): boolean {
    let start = this.#at;
    while (this.#text.charCodeAt(start - 1) === BACKSLASH) start--;
    return (this.#at - start) % 2 === 1;
  }

  #skipSpace(): void {
    while (this.#code() <= 0x20) this.#at++;
  }

  /** The code unit at this place; NaN at the end. */
  #code(): number {
    return this.#text.charCodeAt(this.#at);
  }
}

/** Makes texts that differ only in letter case equal, even if two letters share an upper case. */
function foldCase(text: string): string {
  return text.toUpperCase().toLowerCase();
}

/** Reports whether a code unit can be in a number: a digit, `+`, `-`, `.`, `e` or `E`. */
function isOfNumber(code: number): boolean {
  const isSign = code === 0x2b || code === 0x2d || code === 0x2e;
  return (code >= 0x30 && code <= 0x39) || isSign || code === 0x65 || code === 0x45;
}

function isLetter(code: number): boolean {
  return code >= 0x61 && code <= 0x7a;
}
