import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import { keyVariable, parseHeader, Refusal, readBody, readKey } from "../../commands/input.ts";
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
import { bindRequest } from "../../x402/purchase/earlier-payments.ts";
import { signCaller } from "./sign-caller.ts";
import { parseTarget } from "./target.ts";

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
        "--target <text>",
        "method, path and query string of the request, such as 'GET /weather/Paris?units=metric', for a job with a route",
      ),
      option(
        "--header <header...>",
        "headers of the request that a payment at the route is bound to, as 'Name: value'",
      ).default([], "none"),
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
  readonly target?: string;
  readonly header: readonly string[];
  readonly nonce?: string;
  readonly expiry?: string;
  /** The option is parsed here, because commander quotes values that it refuses. */
  readonly key: string;
}): Promise<void> {
  const { serviceId, jobIndex, nonce, expiry } = options;
  const variable = keyVariable(options.key);
  const privateKey = readPrivateKey(variable);
  const body = await readBody(options.body);
  const headers = await signCaller(privateKey, {
    ...{ serviceId, jobIndex, body, requestHash: requestHashOf(body, options) },
    nonce: nonce ?? randomBytes(16).toString("hex"),
    expiry: expiry ?? String(Math.floor(systemClock() / 1000) + DEFAULT_LIFETIME_SECS),
  });
  for (const [name, value] of Object.entries(headers)) console.log(`${name}: ${value}`);
}

/**
 * Returns the hash of the request that the options describe. Returns undefined if no option does: then the job is bought at the URL with
 * its service and job ID.
 */
function requestHashOf(
  body: Uint8Array,
  { target, header }: { readonly target?: string; readonly header: readonly string[] },
): string | undefined {
  if (target === undefined && header.length === 0) return undefined;
  const request = parseTarget(target ?? "");
  if (request === undefined)
    throw new Refusal([
      `--target is "${target ?? ""}"; expected the method and target of the request, such as "GET /weather/Paris?units=metric"`,
    ]);
  // The hash covers the bytes that are sent. HTTP programs read each byte as one character.
  const headers = header
    .map(parseHeader)
    .map(([name, value]) => [name, Buffer.from(value).toString("latin1")]);
  const headerValues = (name: string) => headers.flatMap(([one, value = ""]) => (one === name ? value : []));
  return bindRequest({ ...request, headerValues }, body, headers.map(([name]) => name).join(",")).bodyHash;
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
