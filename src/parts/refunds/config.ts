import * as z from "zod";
import { type Complete, required } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import { signer as signerSchema } from "../../config/facilitators.ts";
import { readSigner } from "../../config/signers.ts";
import { decimalAmount } from "../../config/value-types.ts";
import { decimalText } from "../../core/amounts.ts";
import { accountOf, type PrivateKey } from "../../core/private-keys.ts";

const refundsSchema = z.object({
  signer: signerSchema.describe('a table such as { private_key = "file:/run/secrets/refunds" }'),
  /** Gwei in the file. Yields wei. */
  maxFeePerGasGwei: decimalAmount(9, "an amount of gwei").optional(),
  /** Native units in the file, below which jobgate warns. Yields wei. */
  minBalance: decimalAmount(18, "an amount of the native token").optional(),
});

/** The account that pays failed jobs back. */
export interface RefundsConfig {
  readonly signer: { readonly privateKey: PrivateKey };
  readonly maxFeePerGasWei: bigint;
  readonly minBalanceWei: bigint;
}

/** 10 gwei. */
const DEFAULT_MAX_FEE_PER_GAS_WEI = 10n ** 10n;
/** 0.001 native units. */
const DEFAULT_MIN_BALANCE_WEI = 10n ** 15n;

/** `[x402.refunds]` */
export const refundsTable = ConfigTable.of({
  in: ["x402"],
  keys: { refunds: refundsSchema.optional() },
  async check({ refunds }, { place, settlers }) {
    if (refunds?.signer === undefined) return undefined;
    const at = place.at("refunds", "signer");
    const signer = await readSigner(refunds.signer, at);
    // The account must be no settler's: each gives nonces of its own.
    if (signer !== undefined && settlers.has(signer.privateKey))
      at.report("has the key of a settler in x402.facilitators; expected an account of its own");
    return signer;
  },
  complete: ({ refunds }, signer): RefundsConfig | undefined =>
    refunds && { signer: required(signer), ...boundsOf(refunds) },
  show: (config, { x402 }) =>
    config === undefined
      ? {}
      : {
          x402: {
            refunds: {
              account: accountOf(config.signer.privateKey),
              maxFeePerGasGwei: decimalText(config.maxFeePerGasWei, 9),
              minBalance: decimalText(config.minBalanceWei, 18),
              promises: (x402?.jobs ?? []).flatMap(({ serviceId, jobIndex, onFailure }) =>
                onFailure === undefined ? [] : { serviceId, jobIndex, onFailure },
              ),
            },
          },
        },
});

function boundsOf({ maxFeePerGasGwei, minBalance }: Complete<z.output<typeof refundsSchema>>) {
  return {
    maxFeePerGasWei: maxFeePerGasGwei ?? DEFAULT_MAX_FEE_PER_GAS_WEI,
    minBalanceWei: minBalance ?? DEFAULT_MIN_BALANCE_WEI,
  };
}
