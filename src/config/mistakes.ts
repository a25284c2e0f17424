import { type KeyPath, type LineFinder, makeLineFinder } from "./line-finder.ts";

export type { KeyPath } from "./line-finder.ts";

/** Formats a path: `["x402", "accepted_tokens", 0]` becomes `x402.accepted_tokens[0]`. */
function keyPathText(path: KeyPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += `${text === "" ? "" : "."}${/^[A-Za-z0-9_-]+$/.test(part) ? part : JSON.stringify(part)}`;
  }
  return text;
}

/**
 * Spelling of a schema key in the file: snake case, and a span in seconds where the schema has milliseconds.
 * `acceptedTokens` becomes `accepted_tokens`, `leaseMs` becomes `lease_secs`.
 */
export function fileKey(name: string): string {
  return name.replace(/Ms$/, "Secs").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A mistake in the configuration. */
export interface Mistake {
  /** Path of the file, which the operator can open. */
  readonly file: string;
  /** 1-based; undefined if the mistake has no line. */
  readonly line?: number | undefined;
  /** For example `x402.accepted_tokens[0].decimals`; empty for the whole file. */
  readonly keyPath: string;
  /** The problem and the expected value, without values that could be secret. */
  readonly message: string;
  /** Valid key or value that a wrong key or value resembles. */
  readonly suggestion?: string | undefined;
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
  readonly suggestion?: string | undefined;
}

/** Notes about a value. */
interface Note {
  /** Place of the value: an environment variable, or a file. Undefined means the configuration file. */
  readonly origin?: string;
  /** Text that operators see in place of the value. */
  readonly view?: string;
}

/** A key or table of a configuration, at which mistakes are reported. */
export class Place {
  readonly path: KeyPath;
  readonly #list: MistakeList;

  constructor(list: MistakeList, path: KeyPath) {
    this.#list = list;
    this.path = path;
  }

  /** Returns a place below this one. */
  at(...keys: KeyPath): Place {
    return new Place(this.#list, [...this.path, ...keys]);
  }

  /** Returns the place of the table that contains this place, `levels` tables further out. */
  up(levels: number): Place {
    return new Place(this.#list, this.path.slice(0, -levels));
  }

  /** The path as the file spells it: `x402.accepted_tokens[0]`. */
  get text(): string {
    return keyPathText(this.path);
  }

  /** @param message what is wrong and what is expected, without any value that could be a secret */
  report(message: string, suggestion?: string): void {
    this.#list.report({ path: this.path, message, suggestion });
  }

  /** Reports a missing value, unless the file has a value that is already reported as wrong. */
  reportMissing(message: string): void {
    if (!this.hasMistake) this.report(message);
  }

  get isReported(): boolean {
    return this.#list.isReported(this.path);
  }

  /** True if this key, or a key below it, is reported as wrong. Mistakes that follow from its value are then not reported. */
  get hasMistake(): boolean {
    return this.#list.hasMistake(this.path);
  }

  /** Records that the value does not stand in the configuration file itself, so that no mistake quotes the value. */
  comesFrom(origin: string): void {
    this.#list.note(this.path, { origin });
  }

  get origin(): string | undefined {
    return this.#list.noteOf(this.path).origin;
  }

  /** Records the text that operators see in place of the value. */
  isShownAs(view: string): void {
    this.#list.note(this.path, { view });
  }

  get view(): string | undefined {
    return this.#list.noteOf(this.path).view;
  }

  /** Adds a warning about a setting that is valid, but probably has another effect than the operator intends. */
  warn(message: string): void {
    this.#list.warn({ path: this.path, message });
  }
}

/** Returns the place that already has a key. The first place that calls it for a key owns the key from then on. */
export function earlierPlace(seen: Map<string, Place>, key: string, place: Place): Place | undefined {
  const earlier = seen.get(key);
  if (earlier === undefined) seen.set(key, place);
  return earlier;
}

/** All mistakes of one configuration. Finds their files and lines when the list is requested. */
export class MistakeList {
  readonly #sources: SourceFile[] = [];
  readonly #unplaced: Mistake[] = [];
  readonly #mistakes: Entry[] = [];
  readonly #warnings: Entry[] = [];
  readonly #notes = new Map<string, Note>();
  readonly #finders = new Map<SourceFile, LineFinder>();

  /** Adds a file that later reports can point into. */
  addSource(source: SourceFile): void {
    this.#sources.push(source);
  }

  at(...path: KeyPath): Place {
    return new Place(this, path);
  }

  report(entry: Entry): void {
    this.#mistakes.push(entry);
  }

  /** Reports a mistake in a file that is not a source, because it cannot be read. */
  reportFile(mistake: Mistake): void {
    this.#unplaced.push(mistake);
  }

  isReported(path: KeyPath): boolean {
    const text = keyPathText(path);
    return this.#mistakes.some((entry) => keyPathText(entry.path) === text);
  }

  hasMistake(path: KeyPath): boolean {
    return this.#mistakes.some((entry) => path.every((part, i) => part === entry.path[i]));
  }

  note(path: KeyPath, note: Note): void {
    this.#notes.set(keyPathText(path), { ...this.noteOf(path), ...note });
  }

  noteOf(path: KeyPath): Note {
    return this.#notes.get(keyPathText(path)) ?? {};
  }

  /** Returns a list with the notes of another list for some paths, and with the notes of this list for all other paths. */
  withNotesOf(other: MistakeList, isOfOther: (path: string) => boolean): MistakeList {
    const list = new MistakeList();
    for (const [path, note] of other.#notes) if (isOfOther(path)) list.#notes.set(path, note);
    for (const [path, note] of this.#notes) if (!isOfOther(path)) list.#notes.set(path, note);
    return list;
  }

  warn(entry: Entry): void {
    this.#warnings.push(entry);
  }

  mistakes(): Mistake[] {
    return inOrder([...this.#unplaced, ...this.#mistakes.map((entry) => this.locate(entry))]);
  }

  warnings(): Mistake[] {
    return inOrder(this.#warnings.map((entry) => this.locate(entry)));
  }

  /** Finds the file and line of an entry. */
  locate({ path, ...entry }: Entry): Mistake {
    const keyPath = keyPathText(path);
    // The last match is the deepest, because the main file is the first source.
    const source = this.#sources.findLast(({ mountedAt }) => mountedAt.every((part, i) => part === path[i]));
    if (source === undefined) return { file: "", keyPath, ...entry };
    const finder = this.#finders.get(source) ?? makeLineFinder(source.toml);
    this.#finders.set(source, finder);
    const line = finder(path.slice(source.mountedAt.length));
    return { file: source.file, line, keyPath, ...entry };
  }
}

function inOrder(list: Mistake[]): Mistake[] {
  const files = [...new Set(list.map(({ file }) => file))];
  return list.sort((a, b) => files.indexOf(a.file) - files.indexOf(b.file) || (a.line ?? 0) - (b.line ?? 0));
}
