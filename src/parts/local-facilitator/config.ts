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
import { readSigner, type Signer, signer } from "../../config/signers.ts";
import { decimalAmount, network, parseNetwork, trueOrFalse } from "../../config/value-types.ts";
import { httpUrl } from "../../config/web-types.ts";

const keys = z.object({
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

type LocalTable = Checked<z.output<typeof keys>>;

/** 10 gwei. */
const DEFAULT_MAX_FEE_PER_GAS_WEI = 10n ** 10n;
/** 0.001 native units. */
const DEFAULT_MIN_BALANCE_WEI = 10n ** 15n;

/** jobgate itself, as a facilitator. */
export interface LocalFacilitatorConfig extends InProcessFacilitatorConfig {
  readonly name: "local";
  readonly signers: readonly Signer[];
  readonly maxFeePerGasWei: bigint;
  readonly minBalanceWei: bigint;
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
  alternative: "local = true",
  claim(table: FacilitatorTable & LocalTable, place) {
    if (table.local === true || place.at("local").isReported) return new LocalEntry(table, place);
    for (const key of ["signer", "rpcUrls", "maxFeePerGasGwei", "minBalance"] as const) {
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
  readonly #table: FacilitatorTable & LocalTable;
  readonly #place: Place;
  #signers: readonly Signer[] = [];

  constructor(table: FacilitatorTable & LocalTable, place: Place) {
    this.#table = table;
    this.#place = place;
    const { maxFeePerGasGwei = DEFAULT_MAX_FEE_PER_GAS_WEI, minBalance = DEFAULT_MIN_BALANCE_WEI } = table;
    this.keys = { ...table, maxFeePerGasGwei, minBalance };
  }

  get networks(): readonly string[] {
    return Object.keys(this.#table.rpcUrls ?? {}).map((name) => parseNetwork(name) ?? name);
  }

  async check({ settlers }: EntryContext): Promise<void> {
    if (this.#place.at("local").isReported) return;
    this.#refuseRemoteKeys();
    this.#checkRpcs();
    const { signer } = this.#table;
    if (signer === undefined) {
      this.#place.at("signer").reportMissing("is missing; expected the key that signs transactions");
      return;
    }
    this.#signers = await readSigners(signer, this.#place.at("signer"));
    for (const { privateKey } of this.#signers) settlers.add(privateKey);
  }

  complete(): LocalFacilitatorConfig {
    const { rpcUrls, maxFeePerGasGwei, minBalance } = this.keys;
    return {
      kind: "in_process",
      name: "local",
      signers: this.#signers,
      chains: Object.entries(required(rpcUrls)).map(([name, rpcUrl]) => ({
        network: required(parseNetwork(name)),
        rpcUrl: required(rpcUrl),
      })),
      maxFeePerGasWei: required(maxFeePerGasGwei),
      minBalanceWei: required(minBalance),
    };
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
      const network = parseNetwork(name);
      if (network === undefined) continue;
      const first = seen.get(network);
      if (first === undefined) seen.set(network, name);
      else place.at(name).report(`is the same network as ${first}; expected each once`);
    }
  }
}

/** Reads the keys of the accounts, each with another key. */
async function readSigners(
  signer: NonNullable<LocalTable["signer"]>,
  place: Place,
): Promise<readonly Signer[]> {
  const found: Signer[] = [];
  for (const [i, table] of [signer].flat().entries()) {
    const at = Array.isArray(signer) ? place.at(i) : place;
    const read = table && (await readSigner(table, at));
    if (read === undefined) continue;
    if (found.some(({ privateKey }) => privateKey === read.privateKey))
      at.report("has the key of another signer; expected each key once");
    else found.push(read);
  }
  return found;
}
