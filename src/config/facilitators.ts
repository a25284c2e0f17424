import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { defined } from "../core/objects.ts";
import type { PrivateKey } from "../core/private-keys.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import type { RequestAuth } from "./entry-keys.ts";
import {
  decimalAmount,
  headerValue,
  namedFile,
  network,
  parseNetwork,
  privateKey,
  text,
  trueOrFalse,
} from "./value-types.ts";
import { baseUrl, headerName, httpUrl, withoutCredentials } from "./web-types.ts";
import type { MayChange } from "./wrong-value.ts";

/** Ways to prove to a remote facilitator who asks. */
const auth = z.object({
  /** Sent with each request. */
  headers: z.record(headerName(), headerValue()).describe('a table of header = "value"').optional(),
});

/** Key that signs transactions: given itself, or in an encrypted file. */
export const signer = z.object({
  privateKey: privateKey().optional(),
  /** Path of a keystore (Web3 Secret Storage, version 3), relative to the configuration file. */
  keystore: namedFile("the path of a keystore file", { from: "configuration", isSecret: true }).optional(),
  password: text("the password of the keystore").optional(),
});

/** URL of a remote facilitator. Operators see its name. */
export const facilitatorUrl = () => baseUrl((url) => `${new URL(url).protocol}//${facilitatorName(url)}`);

/** One entry of `[[x402.facilitators]]`. rules/facilitators.ts checks its keys against each other. */
export const facilitatorSchema = z.object({
  /** Without a trailing slash. */
  url: facilitatorUrl().optional(),
  auth: auth.optional(),
  /** Default: those that its `/supported` lists. */
  networks: z.array(network()).min(1).describe('an array of networks, such as ["base"]').optional(),
  /** jobgate settles itself. */
  local: trueOrFalse().optional(),
  signer: z
    .union([signer, z.array(signer).min(1).describe("an array of tables, one for each account")])
    .describe('a table such as { private_key = "file:/run/secrets/settler" }, or an array of such tables')
    .optional(),
  rpcUrls: z.record(network(), httpUrl()).describe('a table such as { base = "https://…" }').optional(),
  /** Gwei in the file. Yields wei. */
  maxFeePerGasGwei: decimalAmount(9, "an amount of gwei").optional(),
  /** Native units in the file. Yields wei. */
  minBalance: decimalAmount(18, "an amount of the native token").optional(),
});

/** Checks whether two lists differ only in how jobgate proves to remote facilitators who asks. */
export const areSameFacilitators: MayChange = (used, next) =>
  isDeepStrictEqual(withoutSecrets(used), withoutSecrets(next));

function withoutSecrets(facilitators: unknown): unknown {
  return (facilitators as readonly FacilitatorOutput[]).map(({ auth: _, url, ...facilitator }) => ({
    ...facilitator,
    url: url && withoutCredentials(url),
  }));
}

export type SignerTable = Checked<z.output<typeof signer>>;
export type FacilitatorTable = Checked<z.output<typeof facilitatorSchema>>;
type FacilitatorOutput = Complete<z.output<typeof facilitatorSchema>>;

export type FacilitatorConfig = RemoteFacilitatorConfig | LocalFacilitatorConfig;

export interface RemoteFacilitatorConfig {
  readonly kind: "remote";
  /** See {@link facilitatorName}. */
  readonly name: string;
  /** Without a trailing slash; may hold credentials. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly auth?: RequestAuth;
  /** CAIP-2; absent: those that its `/supported` lists. */
  readonly networks?: readonly string[];
}

/** jobgate itself. */
export interface LocalFacilitatorConfig {
  readonly kind: "local";
  readonly name: "local";
  readonly signers: readonly Signer[];
  readonly chains: readonly { readonly network: string; readonly rpcUrl: string }[];
  readonly maxFeePerGasWei: bigint;
  readonly minBalanceWei: bigint;
}

export interface Signer {
  readonly privateKey: PrivateKey;
}

/** 10 gwei. */
const DEFAULT_MAX_FEE_PER_GAS_WEI = 10n ** 10n;
/** 0.001 native units. */
const DEFAULT_MIN_BALANCE_WEI = 10n ** 15n;

/** Fills the values that follow from other keys. */
export function fillFacilitator(facilitator: FacilitatorOutput): FacilitatorOutput {
  if (facilitator.local !== true) return facilitator;
  return {
    ...facilitator,
    maxFeePerGasGwei: facilitator.maxFeePerGasGwei ?? DEFAULT_MAX_FEE_PER_GAS_WEI,
    minBalance: facilitator.minBalance ?? DEFAULT_MIN_BALANCE_WEI,
  };
}

/**
 * Completes an entry without mistakes.
 * @param signers that its `signer` names
 */
export function toFacilitator(
  table: FacilitatorOutput,
  signers: readonly Signer[] | undefined,
  requestAuth: RequestAuth | undefined,
): FacilitatorConfig {
  const { url, auth, networks, local, rpcUrls = {} } = table;
  if (local === true) {
    return {
      kind: "local",
      name: "local",
      signers: required(signers),
      chains: Object.entries(rpcUrls).map(([name, rpcUrl]) => ({
        network: required(parseNetwork(name)),
        rpcUrl,
      })),
      maxFeePerGasWei: required(table.maxFeePerGasGwei),
      minBalanceWei: required(table.minBalance),
    };
  }
  return defined({
    ...toRemoteFacilitator(required(url)),
    headers: auth?.headers,
    auth: requestAuth,
    networks,
  });
}

export function toRemoteFacilitator(url: string): RemoteFacilitatorConfig {
  return { kind: "remote", name: facilitatorName(url), url };
}

/** Longer parts of a path may be keys. */
const MAX_PATH_WORD_LENGTH = 15;

/** Name of a remote facilitator in the journal, logs and metrics: host and path, without anything that may be secret. */
export function facilitatorName(url: string): string {
  const { host, pathname } = new URL(url);
  const parts = pathname.split("/").map((part) => (part.length > MAX_PATH_WORD_LENGTH ? "…" : part));
  return `${host}${parts.join("/").replace(/\/$/, "")}`;
}
