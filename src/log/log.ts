import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { type DestinationStream, type Logger, pino } from "pino";
import { Censor } from "./censor.ts";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export const LOG_FORMATS = ["auto", "json", "pretty"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

/** A program's log. No message, field, error or stack in it holds a known secret. */
export interface Log {
  readonly logger: Logger;
  /** Hides these values from now on, wherever they appear. */
  hide(secrets: Iterable<string>): void;
  /** Adds the names of paid jobs from now on to the lines that are about them. @param names by service and index: `1/0` */
  nameJobs(names: ReadonlyMap<string, string>): void;
}

/** Opens a log of one JSON object a line, or of readable text. */
export function openLog(options: {
  /** One of {@link LOG_LEVELS}. */
  readonly level: string;
  /** `auto` is readable text if stderr is a terminal, else JSON. */
  readonly format: LogFormat;
  /** Default: stderr, because stdout is for a command's output. */
  readonly destination?: DestinationStream;
}): Log {
  const { level, format, destination = openStderr(format) } = options;
  const censor = new Censor();
  let jobNames: ReadonlyMap<string, string> = new Map();
  const logger = pino(
    {
      level,
      // Tells replicas apart in a log that collects all of them.
      base: { instance: randomBytes(4).toString("hex") },
      formatters: { log: (fields) => censor.fields(withJobName(fields, jobNames)) },
      serializers: {
        err: (error: unknown) => censor.fields({ err: pino.stdSerializers.err(error as Error) }).err,
      },
    },
    { write: (line) => void destination.write(censor.scrub(line)) },
  );
  return {
    logger,
    hide: (secrets) => censor.hide(secrets),
    nameJobs: (names) => {
      jobNames = names;
    },
  };
}

function withJobName(fields: object, names: ReadonlyMap<string, string>): object {
  const { job, origin = "x402", jobName } = fields as Readonly<Record<string, unknown>>;
  const name = typeof job === "string" && origin === "x402" ? names.get(job) : undefined;
  return name === undefined || jobName !== undefined ? fields : { ...fields, jobName: name };
}

function openStderr(format: LogFormat): DestinationStream {
  const isPretty = format === "pretty" || (format === "auto" && process.stderr.isTTY === true);
  if (!isPretty) return pino.destination({ dest: 2, sync: true });
  // Loaded only if needed, because JSON is the usual format.
  const { prettyFactory } = createRequire(import.meta.url)("pino-pretty") as typeof import("pino-pretty");
  const pretty = prettyFactory({
    colorize: process.stderr.isTTY === true,
    translateTime: "SYS:HH:MM:ss.l",
    ignore: "instance",
  });
  const stderr = pino.destination({ dest: 2, sync: true });
  return { write: (line) => void stderr.write(pretty(line)) };
}
