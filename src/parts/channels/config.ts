import * as z from "zod";
import { isEvm } from "../../chain/chain-client.ts";
import { required } from "../../config/check-shape.ts";
import { ConfigTable, type TableContext } from "../../config/config-table.ts";
import type { Place } from "../../config/mistakes.ts";
import { fixed } from "../../config/reload.ts";
import { readSigners, type Signer, signer } from "../../config/signers.ts";
import { isSameToken } from "../../config/token-presets.ts";
import { dollarsLike, integer, parsedText } from "../../config/value-types.ts";
import { SHOWN } from "../../config/wrong-value.ts";
import type { AcceptedToken, TokenTable } from "../../config/x402.ts";
import { parseDollars, priceText, type UsdPrice } from "../../core/amounts.ts";
import { EIP3009 } from "../../core/payment.ts";
import { accountOf } from "../../core/private-keys.ts";
import { CHANNEL_METHOD, PERMIT2_DEPOSITS, RETURNED } from "./store/row.ts";

const SCHEME = "batch-settlement";

const dollars = () =>
  parsedText('dollars above 0 with at most 6 decimal places, such as "$5"', parseDollars, {
    ...SHOWN,
    view: (price) => priceText(price),
    near: (value) => [dollarsLike(value)],
  });

const channelsSchema = z.object({
  /**
   * Keys that sign claims and refunds. A channel names its authorizer. Offers name the first key, and a key stays in the
   * list while there are channels that name it.
   */
  authorizer: z
    .union([signer, z.array(signer).min(1).describe("an array of tables, the one of new channels first")])
    .describe('a table such as { private_key = "file:/run/secrets/authorizer" }, or an array of such tables'),
  /** Duration of a payer's withdrawal. Vouchers have to be claimed before it ends. */
  withdrawDelaySecs: integer(900, 2_592_000).default(86_400),
  /** Least deposit that offers name, as a multiple of the price. */
  minDeposit: integer(1, 1_000_000).default(10),
  /** Sum of unclaimed charges above which a channel is claimed. */
  claimAt: dollars().prefault("$5"),
  /** Sum of unclaimed charges below which a channel is not claimed, because the gas would cost more. */
  minClaim: dollars().optional(),
  /** Time after which charges are claimed whatever their sum. */
  claimEverySecs: integer(1, 604_800).default(3_600),
});

/** Payment channels. */
export interface ChannelsConfig {
  /** Keys that sign claims and refunds. New channels name the first key. */
  readonly authorizers: readonly [Signer, ...Signer[]];
  readonly withdrawDelaySecs: number;
  readonly minDeposit: number;
  readonly claimAt: UsdPrice;
  /** Undefined if any sum is claimed. */
  readonly minClaim: UsdPrice | undefined;
  readonly claimEverySecs: number;
}

/** `[x402.channels]` */
export const channelsTable = ConfigTable.of({
  in: ["x402"],
  keys: { channels: fixed(channelsSchema.optional()) },
  async check({ channels }, { place, tables }) {
    if (channels === undefined) return undefined;
    const at = place.at("channels");
    checkDelay(channels, tables, at);
    checkMinClaim(channels, at);
    checkTokens(tables, at);
    return channels.authorizer && readSigners(channels.authorizer, at.at("authorizer"));
  },
  complete({ channels }, read): ChannelsConfig | undefined {
    if (channels === undefined) return undefined;
    const { authorizer: _, ...keys } = channels;
    return { ...keys, minClaim: keys.minClaim, authorizers: required(read) as [Signer, ...Signer[]] };
  },
  summary: (own) => own && "payment channels",
  chargesPart: isChannelToken,
  tokensBeside: (own, tokens) =>
    own === undefined ? [] : channelTokens(tokens).map((token) => besides(token, own)),
});

type Tables = TableContext["tables"];

/** Checks that calls can end and their vouchers be claimed before a withdrawal ends. */
function checkDelay(
  {
    withdrawDelaySecs,
    claimEverySecs,
  }: Partial<Record<"withdrawDelaySecs" | "claimEverySecs", number | undefined>>,
  { jobs = [] }: Tables,
  at: Place,
): void {
  if (withdrawDelaySecs === undefined || at.at("withdraw_delay_secs").isReported) return;
  const longest = Math.max(0, ...jobs.map((job) => job?.maxRunSecs ?? 0));
  const least = Math.max(2 * longest + 600, 4 * (claimEverySecs ?? 0));
  if (withdrawDelaySecs >= least) return;
  at.at("withdraw_delay_secs").report(
    `is ${withdrawDelaySecs}; expected at least ${least}: four times claim_every_secs, and twice the longest max_run_secs plus 600`,
  );
}

type Dollars = { readonly amount?: bigint | undefined };

/** Checks that `min_claim` does not forbid the claims that `claim_at` requires. */
function checkMinClaim(
  { minClaim, claimAt }: Partial<Record<"minClaim" | "claimAt", Dollars | undefined>>,
  at: Place,
): void {
  if (minClaim?.amount === undefined || claimAt?.amount === undefined) return;
  if (minClaim.amount > claimAt.amount)
    at.at("min_claim").report("is above claim_at; expected at most claim_at");
}

function checkTokens({ x402 }: Tables, at: Place): void {
  const tokens = x402?.acceptedTokens ?? [];
  const has = tokens.some((token) => token !== undefined && isChannelToken(token));
  if (has || tokens.includes(undefined)) return;
  at.report(
    "has no token to work with; expected an accepted token that is paid by EIP-3009 or Permit2 and has rpc_url, whose settlements are confirmed on the chain",
  );
}

/** Reports whether a token can pay from channels. Deposits need EIP-3009 or Permit2, and an RPC that shows them. */
function isChannelToken({
  network,
  transferMethod,
  rpcUrl,
  requireOnchainConfirmation,
}: TokenTable | AcceptedToken): boolean {
  return (
    network !== undefined &&
    isEvm(network) &&
    (transferMethod === EIP3009.name || transferMethod === PERMIT2_DEPOSITS) &&
    rpcUrl !== undefined &&
    requireOnchainConfirmation !== false
  );
}

/**
 * Returns the tokens that are paid from channels. Deposits in a token that is listed for both methods use EIP-3009, because it
 * needs no approval.
 */
function channelTokens(tokens: readonly AcceptedToken[]): AcceptedToken[] {
  const found = tokens.filter(isChannelToken);
  const has3009 = ({ transferMethod }: AcceptedToken) => transferMethod === EIP3009.name;
  return found.filter(
    (token) =>
      has3009(token) ||
      !found.some((other) => has3009(other) && isSameToken(other, token) && other.payTo === token.payTo),
  );
}

/** Returns the token with the fields of offers for payments from channels. */
function besides(token: AcceptedToken, config: ChannelsConfig): AcceptedToken {
  const receiverAuthorizer = accountOf(config.authorizers[0].privateKey);
  const { withdrawDelaySecs: withdrawDelay, minDeposit } = config;
  return {
    ...token,
    transferMethod: CHANNEL_METHOD,
    offered: {
      scheme: SCHEME,
      unusedPromise: RETURNED,
      // Requests for refunds.
      isAskedByGet: true,
      extraFor: (amount) => ({
        // Transfer method of deposits.
        assetTransferMethod: token.transferMethod,
        receiverAuthorizer,
        withdrawDelay,
        minDeposit: String(amount * BigInt(minDeposit)),
      }),
    },
  };
}
