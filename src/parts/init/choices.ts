import { Argument, InvalidArgumentError } from "commander";
import { matching, option } from "../../commands/options.ts";
import { isPublicAccount } from "../../config/public-accounts.ts";
import { isTestNetwork, networkName, TOKEN_PRESETS } from "../../config/token-presets.ts";
import { parseNetwork } from "../../config/value-types.ts";
import { parseEvmAddress } from "../../core/addresses.ts";
import { parseDollars } from "../../core/amounts.ts";
import type { Money } from "./new-config.ts";

/** Options about money of the commands that make a configuration. */
export interface MoneyOptions {
  readonly network?: string;
  readonly payTo?: string;
  readonly facilitator?: string;
  readonly rpcUrl?: string;
}

export const moneyOptions = () => [
  option("--network <name>", 'network of the payments (default: "base-sepolia", test money)').argParser(
    parsePayableNetwork,
  ),
  option("--pay-to <address>", "your address, which is paid").argParser(parseAddress),
  option("--facilitator <url>", "facilitator that settles the payments").argParser(parseUrl),
  option("--rpc-url <url>", "JSON-RPC of the network, which shows that you were paid").argParser(parseUrl),
];

export const apiUrlArgument = () =>
  new Argument(
    "[url]",
    "URL of the API, which paths are appended to (default: the first server of --openapi)",
  ).argParser(parseApiUrl);

export const openApiOption = () =>
  option("--openapi <url or file>", "description of an HTTP API, OpenAPI 3, whose operations are sold");

/** @throws InvalidArgumentError if neither the argument nor the description has a URL */
export function apiUrl(given: string | undefined, described: { readonly url?: string } | undefined): string {
  const url = given ?? described?.url;
  if (url !== undefined) return url;
  const why = described === undefined ? "" : ", and the description names no absolute one";
  throw new InvalidArgumentError(
    `The URL of the API is missing${why}; expected a URL, such as http://127.0.0.1:8000.`,
  );
}

/**
 * Refuses a URL with credentials. The message does not quote the URL.
 * @throws InvalidArgumentError for a user or password, which jobgate would show and save
 */
export function requireNoCredentials(url: string | undefined): void {
  if (url === undefined || !WITH_CREDENTIALS.test(url)) return;
  throw new InvalidArgumentError(
    "The URL of the API has a user or password; expected neither. Put the credentials in a variable, and send them with `jobgate sell --header Authorization=env:NAME` or with the headers of [[apis]].",
  );
}

const WITH_CREDENTIALS = /^[a-z]+:\/\/[^/?#\\]*@/i;

/** Returns the recipient and token of payments on a network. The default facilitator needs no account. */
export function moneyOf(network: string, payTo: string, { facilitator, rpcUrl }: MoneyOptions): Money {
  return {
    payTo,
    symbol: presetOn(network)?.symbol ?? "USDC",
    network: networkName(network),
    facilitatorUrl: facilitator ?? facilitatorOf(network),
    rpcUrl,
  };
}

/**
 * Returns the recipient and token of an API's payments, with a JSON-RPC, because a call of an API is charged after it
 * ran, and such payments need the chain.
 * @throws InvalidArgumentError for a network without a public JSON-RPC, unless one is chosen
 */
export async function moneyOfApi(network: string, payTo: string, options: MoneyOptions): Promise<Money> {
  const { publicRpcUrl } = await import("./public-rpc.ts");
  const rpcUrl = options.rpcUrl ?? publicRpcUrl(network);
  if (rpcUrl === undefined)
    throw new InvalidArgumentError(`--rpc-url: expected the URL of a JSON-RPC of ${networkName(network)}.`);
  return moneyOf(network, payTo, { ...options, rpcUrl });
}

function facilitatorOf(network: string): string {
  return network === "eip155:84532" ? "https://x402.org/facilitator" : "https://facilitator.payai.network";
}

function presetOn(network: string) {
  return TOKEN_PRESETS.find((preset) => preset.network === network && preset.hasEip3009);
}

/** Returns the price as the configuration writes it: `$0.01`. */
export function parsePrice(value: string): string {
  const price = `$${value.replace(/^\$/, "")}`;
  if (parseDollars(price) === undefined)
    throw new InvalidArgumentError("Expected dollars with at most 6 decimal places, such as 0.01.");
  return price;
}

/** Returns the CAIP-2 name of a network with a dollar token. */
export function parsePayableNetwork(value: string): string {
  const network = parseNetwork(value);
  if (network !== undefined && presetOn(network) !== undefined) return network;
  const known = TOKEN_PRESETS.map((preset) => preset.network).filter(presetOn);
  throw new InvalidArgumentError(
    `Expected a network with a dollar token that jobgate knows: ${[...new Set(known.map((one) => networkName(one)))].join(", ")}.`,
  );
}

function parseAddress(value: string): string {
  const parsed = parseEvmAddress(value);
  if (parsed.kind === "address") return parsed.address;
  throw new InvalidArgumentError(
    parsed.kind === "malformed"
      ? "--pay-to: expected your address, 0x and 40 hex digits."
      : "The checksum of the address is wrong, so a digit may be mistyped.",
  );
}

/** @throws InvalidArgumentError for an account whose private key is public, on a network whose money is worth something */
export function parseOwnAddress(value: string, network: string): string {
  const address = parseAddress(value);
  if (!isPublicAccount(address) || isTestNetwork(network)) return address;
  throw new InvalidArgumentError(
    `--pay-to: anyone can take what ${address} is paid, because the private key of this account of development nodes is public; expected your own address.`,
  );
}

export function parseUrl(value: string): string {
  if (!/^https?:\/\/[^\s"\\]+$/.test(value) || !URL.canParse(value))
    throw new InvalidArgumentError("Expected an http:// or https:// URL.");
  return value;
}

/**
 * Parses the URL of an API. {@link requireNoCredentials} refuses a URL with credentials later, because commander would show the
 * URL.
 */
const parseApiUrl = (value: string) => (WITH_CREDENTIALS.test(value) ? value : parsePlainApiUrl(value));
const parsePlainApiUrl = matching(
  /^(https?:\/\/[^\s"\\?#]+|unix:\/[^\s"\\]+)$/,
  "the URL of your API, such as http://127.0.0.1:8000, or unix:/path",
);
