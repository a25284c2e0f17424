import * as z from "zod";
import { isEvm } from "../../chain/chain-client.ts";
import { required } from "../../config/check-shape.ts";
import { ConfigTable, type TableContext } from "../../config/config-table.ts";
import { KEEP } from "../../config/jobs.ts";
import type { MistakeList } from "../../config/mistakes.ts";
import { fixed } from "../../config/reload.ts";
import { readSigner, signer as signerSchema } from "../../config/signers.ts";
import { decimalAmount } from "../../config/value-types.ts";
import type { PrivateKey } from "../../core/private-keys.ts";

const refundsSchema = z.object({
  signer: signerSchema.describe('a table such as { private_key = "file:/run/secrets/refunds" }'),
  /** Gwei in the file. Yields wei. */
  maxFeePerGasGwei: decimalAmount(9, "an amount of gwei").default(10n ** 10n),
  /** Native units in the file, below which jobgate warns. Yields wei. */
  minBalance: decimalAmount(18, "an amount of the native token").default(10n ** 15n),
});

/** The account that pays failed jobs back. */
export interface RefundsConfig {
  readonly signer: { readonly privateKey: PrivateKey };
  readonly maxFeePerGasWei: bigint;
  readonly minBalanceWei: bigint;
}

/** `[x402.refunds]` */
export const refundsTable = ConfigTable.of({
  in: ["x402"],
  keys: { refunds: fixed(refundsSchema.optional()) },
  gives: {
    ability: "refunds",
    table: "the table with the account that refunds are sent from",
    promises: [
      { name: "refund", text: "Refunded if it fails." },
      { name: "ask", text: "The seller decides about a refund if it fails." },
    ],
  },
  async check({ refunds }, { place, settlers, tables, mistakes }) {
    checkChains(tables, mistakes);
    if (refunds?.signer === undefined) return undefined;
    const at = place.at("refunds", "signer");
    const signer = await readSigner(refunds.signer, at);
    // The account must be no settler's: each gives nonces of its own.
    if (signer !== undefined && settlers.has(signer.privateKey))
      at.report("has the key of a settler in x402.facilitators; expected an account of its own");
    return signer;
  },
  complete: ({ refunds }, signer): RefundsConfig | undefined =>
    refunds && {
      signer: required(signer),
      maxFeePerGasWei: refunds.maxFeePerGasGwei,
      minBalanceWei: refunds.minBalance,
    },
});

/** Checks that what jobs promise their buyers can be paid back in each token that they can pay in. */
function checkChains({ jobs = [], x402 }: TableContext["tables"], mistakes: MistakeList): void {
  for (const [i, job] of jobs.entries()) {
    const promise = job?.onFailure ?? KEEP;
    const place = mistakes.at("jobs", i, "on_failure");
    if (promise === KEEP || place.isReported) continue;
    for (const [j, token] of (x402?.acceptedTokens ?? []).entries()) {
      if (token?.network !== undefined && !isEvm(token.network)) {
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
