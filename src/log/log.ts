import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { type DestinationStream, type Logger, pino } from "pino";
import { censored } from "./censor.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export const LOG_FORMATS = ["auto", "json", "pretty"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

export interface LogOptions {
  /** One of {@link LOG_LEVELS}. */
  readonly level: string;
  /** `auto` is for people when stderr is a terminal, else JSON. */
  readonly format: LogFormat;
  /** Default: stderr, since stdout is for what a command was asked for. */
  readonly destination?: DestinationStream;
}

/** A program's log, in which no secret can stand: not in a message, not in an error, not in its stack. */
export interface Log {
  readonly logger: Logger;
  /** From now on these do not appear, wherever they would. */
  hide(secrets: Iterable<string>): void;
}

/** One JSON object a line, or lines for people. */
export function openLog({ level, format, destination = openStderr(format) }: LogOptions): Log {
  const secrets = new Set<string>();
  const { scrub, fields } = censored(secrets);
  const logger = pino(
    {
      level,
      // Tells the lines of replicas apart that are collected in one place: the numbers of their requests are alike.
      base: { instance: randomBytes(4).toString("hex") },
      formatters: { log: fields },
      serializers: { err: (error: unknown) => fields({ err: pino.stdSerializers.err(error as Error) }).err },
    },
    { write: (line) => void destination.write(scrub(line)) },
  );
  return {
    logger,
    hide(found) {
      for (const secret of found) secrets.add(secret);
    },
  };
}

function openStderr(format: LogFormat): DestinationStream {
  const isPretty = format === "pretty" || (format === "auto" && process.stderr.isTTY === true);
  if (!isPretty) return pino.destination({ dest: 2, sync: true });
  // Loaded only where a person reads.
  const { prettyFactory } = createRequire(import.meta.url)("pino-pretty") as typeof import("pino-pretty");
  const pretty = prettyFactory({
    colorize: process.stderr.isTTY === true,
    translateTime: "SYS:HH:MM:ss.l",
    ignore: "instance",
  });
  const stderr = pino.destination({ dest: 2, sync: true });
  return { write: (line) => void stderr.write(pretty(line)) };
}
