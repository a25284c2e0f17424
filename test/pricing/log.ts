import pino, { type Logger } from "pino";

/** Logged lines as objects. */
export interface Log {
  readonly logger: Logger;
  readonly lines: { readonly level: number; readonly msg: string; readonly [field: string]: unknown }[];
}

export function startLog(): Log {
  const lines: Log["lines"] = [];
  const logger = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line)) });
  return { logger, lines };
}
