/** Where a value stands in the configuration: table names, keys and array indexes. */
export type KeyPath = readonly (string | number)[];

/** Something that is wrong with the configuration, told so that the operator can put it right at once. */
export interface Mistake {
  /** Name of the file as the operator would open it, or of the option for a value from the command line. */
  readonly file: string;
  /** 1-based; absent when no line can be named. */
  readonly line?: number;
  /** As in docs/configuration.md, such as `x402.accepted_tokens[0].decimals`; empty for the whole file. */
  readonly keyPath: string;
  /** What is wrong and what is expected. Never holds a value that could be a secret. */
  readonly message: string;
  /** The known key that an unknown one was probably meant to be. */
  readonly suggestion?: string;
}

/** `["x402", "accepted_tokens", 0, "decimals"]` becomes `x402.accepted_tokens[0].decimals`. */
export function keyPathText(path: KeyPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += `${text === "" ? "" : "."}${/^[A-Za-z0-9_-]+$/.test(part) ? part : JSON.stringify(part)}`;
  }
  return text;
}

/** `file:line: key.path: message`, the line of output of `jobgate check`. */
export function mistakeText(mistake: Mistake): string {
  const place = mistake.line === undefined ? mistake.file : `${mistake.file}:${mistake.line}`;
  return [place, mistake.keyPath, mistake.message].filter((part) => part !== "").join(": ");
}
