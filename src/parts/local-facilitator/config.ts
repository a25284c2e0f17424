import * as z from "zod";
import { type Checked, required } from "../../config/check-shape.ts";
import type {
  EntryContext,
  EntryKeys,
  FacilitatorClaim,
  InProcessFacilitatorConfig,
} from "../../config/entry-keys.ts";
import type { FacilitatorTable } from "../../config/facilitators.ts";
import { fileKey, type Place } from "../../config/mistakes.ts";
import { checkCredentials } from "../../config/rules/urls.ts";
import { checkAccountKey, readSigners, type Signer, signer } from "../../config/signers.ts";
import {
  type anyNetwork,
  decimalAmount,
  network,
  parseAnyNetwork,
  text,
  trueOrFalse,
} from "../../config/value-types.ts";
import { httpUrl } from "../../config/web-types.ts";
import type { NetworkKind } from "../../core/addresses.ts";

/** Keys of the table that depend on the networks. */
const networkKeys = (key: ReturnType<typeof anyNetwork>) => ({
  rpcUrls: z.record(key, httpUrl()).describe('a table such as { base = "https://…" }').optional(),
  /** Keys of the accounts that pay for transactions on networks that are not EVM chains. */
  feePayers: z
    .record(key, text("the key of an account, as env:NAME or file:PATH"))
    .describe('a table of network = "file:PATH"')
    .optional(),
});

const keys = z.object({
  /** True for the facilitator that runs inside jobgate. */
  local: trueOrFalse().optional(),
  signer: z
    .union([signer, z.array(signer).min(1).describe("an array of tables, one for each account")])
    .describe('a table such as { private_key = "file:/run/secrets/settler" }, or an array of such tables')
    .optional(),
  ...networkKeys(network()),
  /** Gwei in the file, parsed to wei. */
  maxFeePerGasGwei: decimalAmount(9, "an amount of gwei").optional(),
  /** Units of the native token in the file, parsed to wei. */
  minBalance: decimalAmount(18, "an amount of the native token").optional(),
});

type LocalTable = Checked<z.output<typeof keys>>;

/** 10 gwei. */
const DEFAULT_MAX_FEE_PER_GAS_WEI = 10n ** 10n;
/** 0.001 native units. */
const DEFAULT_MIN_BALANCE_WEI = 10n ** 15n;

/** Configuration of the facilitator that runs inside jobgate. */
export interface LocalFacilitatorConfig extends InProcessFacilitatorConfig {
  readonly name: "local";
  readonly signers: readonly Signer[];
  readonly chains: readonly LocalChain[];
  readonly maxFeePerGasWei: bigint;
  readonly minBalanceWei: bigint;
}

/** A network that jobgate settles on. */
interface LocalChain {
  /** CAIP-2. */
  readonly network: string;
  readonly rpcUrl: string;
  /** Key of the account that pays for transactions. Undefined if the network is an EVM chain, where `signers` pay. */
  readonly feePayer?: string;
}

/** Finds the local facilitator in a configuration. */
export function findLocal(
  facilitators: readonly { readonly name: string }[] | undefined,
): LocalFacilitatorConfig | undefined {
  return facilitators?.find((one): one is LocalFacilitatorConfig => one.name === "local");
}

/** `local` and its keys in `[[x402.facilitators]]` */
export const localKeys: EntryKeys<"x402.facilitators"> = {
  list: "x402.facilitators",
  keys: keys.shape,
  keysWith: networkKeys,
  alternative: "local = true",
  claim(table: FacilitatorTable & LocalTable, place) {
    if (table.local === true || place.at("local").isReported) return new LocalEntry(table, place);
    for (const key of ["signer", "rpcUrls", "feePayers", "maxFeePerGasGwei", "minBalance"] as const) {
      if (table[key] === undefined) continue;
      place.at(fileKey(key)).report("is for jobgate's own facilitator; expected local = true beside it");
    }
    return undefined;
  },
};

/** Entry of the local facilitator. */
class LocalEntry implements FacilitatorClaim {
  readonly name = "local";
  readonly keys: LocalTable;
  readonly accounts = new Set<string>();
  readonly #table: FacilitatorTable & LocalTable;
  readonly #place: Place;
  #signers: readonly Signer[] = [];
  #kinds: readonly NetworkKind[] = [];

  constructor(table: FacilitatorTable & LocalTable, place: Place) {
    this.#table = table;
    this.#place = place;
    const { maxFeePerGasGwei = DEFAULT_MAX_FEE_PER_GAS_WEI, minBalance = DEFAULT_MIN_BALANCE_WEI } = table;
    this.keys = { ...table, maxFeePerGasGwei, minBalance };
  }

  get networks(): readonly string[] {
    return Object.keys(this.#table.rpcUrls ?? {}).map((name) => this.#networkOf(name));
  }

  async check({ networkKinds }: EntryContext): Promise<void> {
    this.#kinds = networkKinds;
    if (this.#place.at("local").isReported) return;
    this.#refuseRemoteKeys();
    this.#checkRpcs();
    for (const account of this.#checkFeePayers()) this.accounts.add(account);
    const { signer } = this.#table;
    const needsSigner = this.networks.length === 0 || this.networks.some((one) => !this.#kindOf(one));
    if (signer === undefined) {
      if (!needsSigner) return;
      this.#place.at("signer").reportMissing("is missing; expected the key that signs transactions");
      return;
    }
    this.#signers = await readSigners(signer, this.#place.at("signer"));
    for (const { privateKey } of this.#signers) this.accounts.add(privateKey);
  }

  complete(): LocalFacilitatorConfig {
    const { rpcUrls, feePayers = {}, maxFeePerGasGwei, minBalance } = this.keys;
    const keyOf = (network: string) =>
      Object.entries(feePayers).find(([name]) => this.#networkOf(name) === network)?.[1];
    return {
      kind: "in_process",
      name: "local",
      signers: this.#signers,
      chains: Object.entries(required(rpcUrls)).map(([name, rpcUrl]) => {
        const network = this.#networkOf(name);
        const feePayer = keyOf(network);
        return { network, rpcUrl: required(rpcUrl), ...(feePayer && { feePayer }) };
      }),
      maxFeePerGasWei: required(maxFeePerGasGwei),
      minBalanceWei: required(minBalance),
    };
  }

  #networkOf(name: string): string {
    return parseAnyNetwork(name, this.#kinds) ?? name;
  }

  /** Returns the kind of a network; undefined for an EVM chain. */
  #kindOf(network: string): NetworkKind | undefined {
    return this.#kinds.find((kind) => kind.has(network));
  }

  /** Checks that each network that is not an EVM chain has the key of one account. @returns the accounts */
  #checkFeePayers(): string[] {
    const { rpcUrls = {}, feePayers = {} } = this.#table;
    const place = this.#place.at("fee_payers");
    const paid = new Set<string>();
    const accounts: (string | undefined)[] = [];
    for (const [name, key] of Object.entries(feePayers)) {
      const network = this.#networkOf(name);
      const keys = this.#kindOf(network)?.feePayers;
      if (keys === undefined) place.at(name).report("is an EVM chain; expected its key in signer");
      else if (!this.networks.includes(network))
        place.at(name).report("is a network without an RPC; expected it in rpc_urls");
      else if (key !== undefined) accounts.push(checkAccountKey(key, keys, place.at(name)));
      paid.add(network);
    }
    for (const name of Object.keys(rpcUrls)) {
      const keys = this.#kindOf(this.#networkOf(name))?.feePayers;
      if (keys !== undefined && !paid.has(this.#networkOf(name)))
        place.at(name).reportMissing(`is missing; expected ${keys.expected}`);
    }
    return accounts.filter((account) => account !== undefined);
  }

  #refuseRemoteKeys(): void {
    for (const key of ["url", "auth", "networks"] as const) {
      if (this.#table[key] === undefined) continue;
      this.#place.at(key).report("is for a remote facilitator; expected no such key beside local = true");
    }
  }

  /** Checks that each network has one RPC. */
  #checkRpcs(): void {
    const { rpcUrls = {} } = this.#table;
    const place = this.#place.at("rpc_urls");
    if (Object.keys(rpcUrls).length === 0) {
      place.reportMissing("is missing; expected the RPC of each network to settle on");
    }
    const seen = new Map<string, string>();
    for (const [name, url] of Object.entries(rpcUrls)) {
      checkCredentials(place.at(name), url);
      const network = this.#networkOf(name);
      const first = seen.get(network);
      if (first === undefined) seen.set(network, name);
      else place.at(name).report(`is the same network as ${first}; expected each once`);
    }
  }
}
