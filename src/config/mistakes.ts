import { type KeyPath, keyPathText } from "./key-path.ts";
import { type LineFinder, makeLineFinder } from "./line-finder.ts";

/** Something wrong with the configuration. */
export interface Mistake {
  /** Name of the file, as the operator can open it. */
  readonly file: string;
  /** 1-based; absent when the mistake has no line. */
  readonly line?: number;
  /** For example `x402.accepted_tokens[0].decimals`; empty for the whole file. */
  readonly keyPath: string;
  /** The problem and the expected value. Never holds a value that could be a secret. */
  readonly message: string;
  /** Known key that an unknown key resembles. */
  readonly suggestion?: string;
}

/** Line of output of `jobgate check`: `file:line: key.path: message`. */
export function mistakeText(mistake: Mistake): string {
  const place = mistake.line === undefined ? mistake.file : `${mistake.file}:${mistake.line}`;
  return [place, mistake.keyPath, mistake.message].filter((part) => part !== "").join(": ");
}

/** One file of the configuration. */
interface SourceFile {
  readonly file: string;
  readonly toml: string;
  /** `[]` for the main file, `["x402"]` for the file that holds the keys of that table. */
  readonly mountedAt: KeyPath;
}

interface Entry {
  readonly path: KeyPath;
  readonly message: string;
  readonly suggestion?: string;
}

/** Everything wrong with one configuration. Finds the file and line of each mistake when asked for the list. */
export class MistakeList {
  readonly #sources: SourceFile[] = [];
  readonly #unplaced: Mistake[] = [];
  readonly #mistakes: Entry[] = [];
  readonly #warnings: Entry[] = [];
  readonly #finders = new Map<SourceFile, LineFinder>();

  /** Adds a file that later reports can point into. */
  addSource(source: SourceFile): void {
    this.#sources.push(source);
  }

  /** @param message what is wrong and what is expected, without any value that could be a secret */
  report(path: KeyPath, message: string, suggestion?: string): void {
    this.#mistakes.push({ path, message, ...(suggestion === undefined ? {} : { suggestion }) });
  }

  /** Reports a missing value, unless the file has one that is already reported as wrong. */
  reportMissing(path: KeyPath, message: string): void {
    if (!this.isReported(path)) this.report(path, message);
  }

  /** Reports a mistake in a file that is not a source, because it cannot be read. */
  reportFile(mistake: Mistake): void {
    this.#unplaced.push(mistake);
  }

  isReported(path: KeyPath): boolean {
    const text = keyPathText(path);
    return this.#mistakes.some((entry) => keyPathText(entry.path) === text);
  }

  /** Adds something that works, but probably not as the operator intends. */
  warn(path: KeyPath, message: string): void {
    this.#warnings.push({ path, message });
  }

  /** Mistake with the file and line of a path; does not add it to the list. */
  at(path: KeyPath, message: string): Mistake {
    return this.#place({ path, message });
  }

  mistakes(): Mistake[] {
    return inOrder([...this.#unplaced, ...this.#mistakes.map((entry) => this.#place(entry))]);
  }

  warnings(): Mistake[] {
    return inOrder(this.#warnings.map((entry) => this.#place(entry)));
  }

  #place({ path, ...entry }: Entry): Mistake {
    const keyPath = keyPathText(path);
    // The last match is the deepest: the main file is the first source.
    const source = this.#sources.findLast(({ mountedAt }) => mountedAt.every((part, i) => part === path[i]));
    if (source === undefined) return { file: "", keyPath, ...entry };
    const finder = this.#finders.get(source) ?? makeLineFinder(source.toml);
    this.#finders.set(source, finder);
    const line = finder(path.slice(source.mountedAt.length));
    return { file: source.file, ...(line === undefined ? {} : { line }), keyPath, ...entry };
  }
}

function inOrder(list: Mistake[]): Mistake[] {
  const files = [...new Set(list.map(({ file }) => file))];
  return list.sort((a, b) => files.indexOf(a.file) - files.indexOf(b.file) || (a.line ?? 0) - (b.line ?? 0));
}
