import * as z from "zod";
import { isEvm } from "../../chain/chain-client.ts";
import { type Checked, required } from "../../config/check-shape.ts";
import { ConfigTable, type TableContext } from "../../config/config-table.ts";
import { KEEP } from "../../config/jobs.ts";
import { fixed } from "../../config/reload.ts";
import { checkAccountKey, readSigner, type Signer, signer as signerSchema } from "../../config/signers.ts";
import { type anyNetwork, decimalAmount, network, parseAnyNetwork, text } from "../../config/value-types.ts";
import { isSoldIn } from "../../config/x402.ts";
import type { PrivateKey } from "../../core/private-keys.ts";

/** Keys by network. */
const networkKeys = (network: ReturnType<typeof anyNetwork>) => ({
  /** Keys of the accounts on networks that are not EVM chains. */
  accounts: z
    .record(network, text("the key of an account, as env:NAME or file:PATH"))
    .describe('a table of network = "file:PATH"')
    .optional(),
});

const refundsSchema = z.object({
  /** Account on EVM chains. */
  signer: signerSchema.describe('a table such as { private_key = "file:/run/secrets/refunds" }').optional(),
  ...networkKeys(network()),
  /** Gwei in the file. Yields wei. */
  maxFeePerGasGwei: decimalAmount(9, "an amount of gwei").default(10n ** 10n),
  /** Native units in the file, below which jobgate warns. Yields wei. */
  minBalance: decimalAmount(18, "an amount of the native token").default(10n ** 15n),
});

type RefundsTable = Checked<z.output<typeof refundsSchema>>;

/** The accounts that pay failed jobs back. */
export interface RefundsConfig {
  /** Account on EVM chains. */
  readonly signer: { readonly privateKey: PrivateKey } | undefined;
  /** Keys of the accounts on other networks, by network in CAIP-2. */
  readonly accounts: ReadonlyMap<string, string>;
  readonly maxFeePerGasWei: bigint;
  readonly minBalanceWei: bigint;
}

/** `[x402.refunds]` */
export const refundsTable = ConfigTable.of({
  in: ["x402"],
  keys: { refunds: fixed(refundsSchema.optional()) },
  accounts: { path: ["x402", "refunds"], keys: (_address, network) => networkKeys(network) },
  gives: {
    ability: "refunds",
    table: "the table with the account that refunds are sent from",
    promises: [
      { name: "refund", text: "Refunded if it fails." },
      { name: "ask", text: "The seller decides about a refund if it fails." },
    ],
  },
  async check({ refunds }, context) {
    const accounts = refunds ? checkAccounts(refunds, context) : new Map<string, string>();
    // Without the table, the promise itself is a mistake.
    if (refunds) checkChains(accounts, context);
    return { accounts, signer: refunds && (await checkSigner(refunds, context)) };
  },
  complete: ({ refunds }, read): RefundsConfig | undefined =>
    refunds && {
      signer: read?.signer,
      accounts: required(read).accounts,
      maxFeePerGasWei: refunds.maxFeePerGasGwei,
      minBalanceWei: refunds.minBalance,
    },
});

/**
 * Mistake of a refund account that also settles, because both senders count the nonces of the account, so one nonce
 * could be used twice.
 */
const NO_SETTLER = "has the key of a settler in x402.facilitators; expected an account of its own";

async function checkSigner(
  { signer, accounts }: RefundsTable,
  { place, tables }: TableContext,
): Promise<Signer | undefined> {
  const at = place.at("refunds", "signer");
  if (signer === undefined) {
    const tokens = tables.x402?.acceptedTokens ?? [];
    const isNeeded = accounts === undefined || tokens.some((token) => token?.network && isEvm(token.network));
    if (isNeeded) at.reportMissing("is missing; expected the key of the account on EVM chains");
    return undefined;
  }
  const read = await readSigner(signer, at);
  if (read !== undefined && isOfFacilitator(read.privateKey, tables)) at.report(NO_SETTLER);
  return read;
}

function isOfFacilitator(account: string, { x402, claims }: TableContext["tables"]): boolean {
  const facilitators = x402?.facilitators ?? [];
  return facilitators.some((_, i) => claims.of("x402.facilitators", i)?.accounts.has(account));
}

/** @returns keys without mistakes, by network in CAIP-2 */
function checkAccounts(
  { accounts = {} }: RefundsTable,
  { place, tables, networkKinds }: TableContext,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, key] of Object.entries(accounts)) {
    const at = place.at("refunds", "accounts", name);
    const network = parseAnyNetwork(name, networkKinds) ?? name;
    const keys = networkKinds.find((kind) => kind.has(network))?.feePayers;
    if (keys === undefined) at.report("is an EVM chain; expected its key in signer");
    else if (key !== undefined) {
      const account = checkAccountKey(key, keys, at);
      if (account !== undefined && isOfFacilitator(account, tables)) at.report(NO_SETTLER);
      found.set(network, key);
    }
  }
  return found;
}

/** Checks that the refunds that jobs promise can be sent in each token in which buyers can pay. */
function checkChains(
  accounts: ReadonlyMap<string, string>,
  { tables: { jobs = [], x402 }, mistakes, networkKinds }: TableContext,
): void {
  for (const [i, job] of jobs.entries()) {
    const promise = job?.onFailure ?? KEEP;
    const place = mistakes.at("jobs", i, "on_failure");
    if (promise === KEEP || place.isReported) continue;
    const tokens = x402?.acceptedTokens ?? [];
    for (const [j, token] of tokens.entries()) {
      if (token !== undefined && !isSoldIn(token, job?.name, tokens)) continue;
      const account = networkKinds.find((kind) => kind.has(token?.network ?? ""))?.feePayers;
      if (token?.network !== undefined && account !== undefined && !accounts.has(token.network)) {
        mistakes
          .at("x402", "refunds", "accounts")
          .reportMissing(
            `has no key for ${token.network}; expected ${account.expected}, since ${place.text} is "${promise}"`,
          );
        continue;
      }
      if (token?.network !== undefined && account === undefined && !isEvm(token.network)) {
        mistakes
          .at("x402", "accepted_tokens", j, "network")
          .report(
            `is ${token.network}, where refunds cannot be sent; expected an EVM chain, since ${place.text} is "${promise}"`,
          );
        continue;
      }
      if (token === undefined || token.rpcUrl !== undefined) continue;
      mistakes
        .at("x402", "accepted_tokens", j, "rpc_url")
        .reportMissing(
          `is missing; expected the RPC to send refunds through, since ${place.text} is "${promise}"`,
        );
    }
  }
}
