import pino, { type Logger } from "pino";

/** Logged lines as objects. */
export interface Log {
  readonly logger: Logger;
  readonly lines: { readonly level: number; readonly msg: string; readonly [field: string]: unknown }[];
}

/** @param level `error` costs nothing where nothing goes wrong */
export function startLog(level: "debug" | "error" = "debug"): Log {
  const lines: Log["lines"] = [];
  const logger = pino({ level }, { write: (line) => void lines.push(JSON.parse(line)) });
  return { logger, lines };
}
