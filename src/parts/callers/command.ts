import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { keyVariable, Refusal, readBody, readKey } from "../../commands/input.ts";
import {
  addCommand,
  bodyOption,
  matching,
  option,
  parseInteger,
  parseServiceId,
} from "../../commands/options.ts";
import { systemClock } from "../../core/clock.ts";
import { type PrivateKey, parsePrivateKey } from "../../core/private-keys.ts";
import { signCaller } from "./sign-caller.ts";

const DEFAULT_LIFETIME_SECS = 600;
const MAX_JOB_INDEX = 2 ** 32 - 1;

export function addTo(program: Command): void {
  addCommand(program, {
    name: "sign-caller",
    description: "Print the headers that authenticate the caller of a restricted job.",
    example: "sign-caller --service-id 1 --job-index 7 --body job.json --key env:CALLER_KEY",
    takes: [
      option("--service-id <N>", "service ID of the job").argParser(parseServiceId).makeOptionMandatory(),
      option("--job-index <N>", "index of the job")
        .argParser((value) => parseInteger(value, 0, MAX_JOB_INDEX))
        .makeOptionMandatory(),
      bodyOption(),
      option(
        "--nonce <text>",
        "1 to 128 visible ASCII characters, different for each request of a job (default: random)",
      ).argParser(matching(/^[\x21-\x7e]{1,128}$/, "1 to 128 visible ASCII characters")),
      option(
        "--expiry <seconds>",
        "Unix time in seconds at which the signature expires, at most 24 hours ahead (default: in 10 minutes)",
      ).argParser(matching(/^(0|[1-9][0-9]{0,14})$/, "Unix time in seconds, decimal")),
      option(
        "--key <env:NAME>",
        "environment variable with the caller's private key in hex",
      ).makeOptionMandatory(),
    ],
  }).action(sign);
}

async function sign(options: {
  readonly serviceId: bigint;
  readonly jobIndex: number;
  readonly body: string;
  readonly nonce?: string;
  readonly expiry?: string;
  /** Parsed here, because commander quotes what it refuses. */
  readonly key: string;
}): Promise<void> {
  const { serviceId, jobIndex, nonce, expiry } = options;
  const variable = keyVariable(options.key);
  const privateKey = readPrivateKey(variable);
  const body = await readBody(options.body);
  const headers = await signCaller(privateKey, {
    ...{ serviceId, jobIndex, body },
    nonce: nonce ?? randomBytes(16).toString("hex"),
    expiry: expiry ?? String(Math.floor(systemClock() / 1000) + DEFAULT_LIFETIME_SECS),
  });
  for (const [name, value] of Object.entries(headers)) console.log(`${name}: ${value}`);
}

/** Reads the key; its value never becomes part of a message. */
function readPrivateKey(variable: string): PrivateKey {
  const key = parsePrivateKey(`0x${readKey(variable).replace(/^0x/, "")}`);
  if (key === undefined)
    throw new Refusal([
      `environment variable ${variable} does not hold a private key; expected 32 bytes in hex, neither 0 nor too large`,
    ]);
  return key;
}
