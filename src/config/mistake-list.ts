import { type LineFinder, makeLineFinder } from "./line-finder.ts";
import { type KeyPath, keyPathText, type Mistake } from "./mistake.ts";

/** One file of the configuration, and where its top level belongs. */
export interface SourceFile {
  readonly file: string;
  readonly toml: string;
  /** `[]` for the main file, `["x402"]` for the file that holds the keys of that table. */
  readonly mountedAt: KeyPath;
}

/** Collects everything that is wrong, and finds the file and line of each once all is known. */
export interface MistakeList {
  /** @param message what is wrong and what is expected, without any value that could be a secret */
  report(path: KeyPath, message: string, suggestion?: string): void;
  /** For a value that a rule asks for: says nothing when what is there is already reported as wrong. */
  reportMissing(path: KeyPath, message: string): void;
  /** Whether something is reported at this very path. */
  isReported(path: KeyPath): boolean;
  /** Something that will run, but perhaps not as meant. */
  warn(path: KeyPath, message: string): void;
  /** A mistake in something that is not part of any file of {@link sources}. */
  add(mistake: Mistake): void;
  /** The file that a value stands in, or would stand in, for the paths it will be given later. */
  readonly sources: SourceFile[];
  /** A mistake with the file and line of a path, without collecting it. */
  at(path: KeyPath, message: string): Mistake;
  mistakes(): Mistake[];
  warnings(): Mistake[];
}

interface Entry {
  readonly path: KeyPath;
  readonly message: string;
  readonly suggestion?: string;
}

export function makeMistakeList(): MistakeList {
  const sources: SourceFile[] = [];
  const placed: Mistake[] = [];
  const entries: Entry[] = [];
  const warnings: Entry[] = [];
  const finders = new Map<SourceFile, LineFinder>();

  const place = (entry: Entry): Mistake => {
    const source = sources
      .filter(({ mountedAt }) => mountedAt.every((part, i) => part === entry.path[i]))
      .sort((a, b) => b.mountedAt.length - a.mountedAt.length)[0];
    const common = {
      keyPath: keyPathText(entry.path),
      message: entry.message,
      ...(entry.suggestion === undefined ? {} : { suggestion: entry.suggestion }),
    };
    if (source === undefined) return { file: "", ...common };
    let finder = finders.get(source);
    if (finder === undefined) {
      finder = makeLineFinder(source.toml);
      finders.set(source, finder);
    }
    const line = finder(entry.path.slice(source.mountedAt.length));
    return { file: source.file, ...(line === undefined ? {} : { line }), ...common };
  };
  const inOrder = (list: Mistake[]): Mistake[] => {
    const files = [...new Set(list.map(({ file }) => file))];
    return list.sort(
      (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || (a.line ?? 0) - (b.line ?? 0),
    );
  };

  const isReported = (path: KeyPath): boolean => {
    const text = keyPathText(path);
    return entries.some((entry) => keyPathText(entry.path) === text);
  };

  return {
    sources,
    isReported,
    report: (path, message, suggestion) =>
      void entries.push({ path, message, ...(suggestion === undefined ? {} : { suggestion }) }),
    reportMissing: (path, message) => {
      if (!isReported(path)) entries.push({ path, message });
    },
    warn: (path, message) => void warnings.push({ path, message }),
    at: (path, message) => place({ path, message }),
    add: (mistake) => void placed.push(mistake),
    mistakes: () => inOrder([...placed, ...entries.map(place)]),
    warnings: () => inOrder(warnings.map(place)),
  };
}
