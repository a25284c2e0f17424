import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type Command, InvalidArgumentError, Option } from "commander";
import { fileErrorText } from "../config/config-files.ts";
import { systemClock } from "../core/clock.ts";
import { signCaller } from "../x402/callers/sign-caller.ts";
import { parseJobIndex, parseServiceId } from "./options.ts";
import { Refusal } from "./refusal.ts";

interface SignCallerOptions {
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly body: string;
  readonly nonce?: string;
  readonly expiry?: string;
  /** `env:NAME`; checked in the action, because commander quotes what it refuses. */
  readonly key: string;
}

const DEFAULT_LIFETIME_SECS = 600;

export function addSignCallerCommand(program: Command): void {
  program
    .command("sign-caller")
    .description("Print the headers by which a caller of a restricted job shows that a request is its own.")
    .addOption(
      new Option("--service-id <N>", "service id of the job")
        .env("JOBGATE_SERVICE_ID")
        .argParser(parseServiceId)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option("--job-index <N>", "index of the job")
        .env("JOBGATE_JOB_INDEX")
        .argParser(parseJobIndex)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option("--body <file>", "file that holds the body").env("JOBGATE_BODY").makeOptionMandatory(),
    )
    .addOption(
      new Option(
        "--nonce <text>",
        "1 to 128 visible ASCII characters, not used for this job before (default: random)",
      )
        .env("JOBGATE_NONCE")
        .argParser(parseNonce),
    )
    .addOption(
      new Option(
        "--expiry <seconds>",
        "Unix seconds until which the signature is good, at most 24 hours ahead (default: in 10 minutes)",
      )
        .env("JOBGATE_EXPIRY")
        .argParser(parseExpiry),
    )
    .addOption(
      new Option("--key <env:NAME>", "environment variable that holds the caller's private key in hex")
        .env("JOBGATE_KEY")
        .makeOptionMandatory(),
    )
    .addHelpText(
      "after",
      "\nExample:\n  $ jobgate sign-caller --service-id 1 --job-index 7 --body job.json --key env:CALLER_KEY",
    )
    .action(async ({ key, body: bodyFile, serviceId, jobIndex, nonce, expiry }: SignCallerOptions) => {
      const keyName = parseKeyName(key);
      const privateKey = readPrivateKey(keyName);
      const body = await readFile(bodyFile).catch((error: unknown) => {
        throw new Refusal([`${bodyFile} cannot be read: ${fileErrorText(error)}`]);
      });
      const headers = await signCaller({
        ...{ serviceId, jobIndex, body, privateKey },
        nonce: nonce ?? randomBytes(16).toString("hex"),
        expiry: expiry ?? String(Math.floor(systemClock() / 1000) + DEFAULT_LIFETIME_SECS),
      }).catch(() => {
        throw new Refusal([`environment variable ${keyName} holds no private key: it is 0 or too large`]);
      });
      for (const [name, value] of Object.entries(headers)) console.log(`${name}: ${value}`);
    });
}

/** The value never gets into a message. */
function readPrivateKey(name: string): `0x${string}` {
  const value = process.env[name] ?? "";
  if (value === "")
    throw new Refusal([`environment variable ${name} is unset or empty; expected a private key`]);
  const digits = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(value)?.[1];
  if (digits === undefined)
    throw new Refusal([`environment variable ${name} holds no private key; expected 32 bytes in hex`]);
  return `0x${digits}`;
}

/** A key in an argument would be seen by everyone who lists processes, and stay in the shell's history. */
function parseKeyName(value: string): string {
  const name = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(value)?.[1];
  if (name === undefined) throw new InvalidArgumentError("--key: expected env:NAME, never the key itself.");
  return name;
}

function parseNonce(value: string): string {
  if (!/^[\x21-\x7e]{1,128}$/.test(value))
    throw new InvalidArgumentError("Expected 1 to 128 visible ASCII characters.");
  return value;
}

function parseExpiry(value: string): string {
  if (!/^(0|[1-9][0-9]{0,14})$/.test(value))
    throw new InvalidArgumentError("Expected Unix seconds as a decimal.");
  return value;
}
