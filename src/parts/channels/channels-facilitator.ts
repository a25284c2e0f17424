import type { LocalAccount } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { chainIdOf } from "../../chain/chain-client.ts";
import type { PrivateKey } from "../../core/private-keys.ts";
import {
  type Facilitator,
  type SettlementAnswer,
  takesNetwork,
} from "../../x402/facilitators/facilitator.ts";
import { type ChannelConfig, claimDigest, refundDigest } from "./hashes.ts";
import type { ChannelRefund } from "./store/refund-rules.ts";
import type { ChannelRow } from "./store/row.ts";

const SCHEME = "batch-settlement";
/** Time for which a facilitator's list of kinds is used. */
const FRESH_MS = 300_000;

/** A sum that is claimed from a channel, token units. */
export interface Claim {
  readonly row: ChannelRow;
  readonly totalClaimed: bigint;
}

/**
 * Requests claims, settlements and refunds of channels on one network from a facilitator. The authorizer's key signs each claim
 * and refund.
 */
export class ChannelsFacilitator {
  readonly #network: string;
  readonly #facilitators: () => readonly Facilitator[];
  /** Keys that sign, by their addresses in lower case. */
  readonly #authorizers: ReadonlyMap<string, LocalAccount>;
  #chosen: { readonly facilitator: Facilitator; readonly at: number } | undefined;

  constructor(parts: {
    readonly network: string;
    /** Returns the facilitators in the order of their use. */
    readonly facilitators: () => readonly Facilitator[];
    readonly authorizers: readonly PrivateKey[];
  }) {
    this.#network = parts.network;
    this.#facilitators = parts.facilitators;
    this.#authorizers = new Map(
      parts.authorizers.map((key) => {
        const account = privateKeyToAccount(key);
        return [account.address.toLowerCase(), account];
      }),
    );
  }

  /** Returns true for a channel whose claims can be signed. */
  canSign(row: ChannelRow): boolean {
    return this.#authorizers.has(authorizerOf(row));
  }

  /** Claims from channels that have one authorizer. */
  async claim(claims: readonly [Claim, ...Claim[]]): Promise<SettlementAnswer> {
    return this.#settle(claims[0].row, { type: "claim", ...(await this.#signed(claims)) });
  }

  /** Moves claimed money to its receiver. */
  settle({
    asset,
    receiver,
  }: {
    readonly asset: string;
    readonly receiver: string;
  }): Promise<SettlementAnswer> {
    return this.#ask({ asset, payTo: receiver }, { type: "settle", receiver, token: asset });
  }

  /** Pays a payer back, after a claim of the final charges. */
  async refund(row: ChannelRow, refund: ChannelRefund): Promise<SettlementAnswer> {
    const { channel_id: channelId, config, signed, signature } = row;
    const { amount, nonce, totalClaimed } = refund;
    const hash = refundDigest(chainIdOf(this.#network), {
      channelId,
      nonce: BigInt(nonce),
      amount: BigInt(amount),
    });
    const isClaimed = BigInt(totalClaimed) > BigInt(row.claimed);
    return this.#settle(row, {
      type: "refund",
      channelConfig: JSON.parse(config),
      voucher: { channelId, maxClaimableAmount: signed, signature },
      amount,
      refundNonce: nonce,
      refundAuthorizerSignature: await this.#sign(hash, row),
      ...(isClaimed ? await this.#signed([{ row, totalClaimed: BigInt(totalClaimed) }]) : { claims: [] }),
    });
  }

  async #signed(claims: readonly [Claim, ...Claim[]]): Promise<object> {
    const hash = claimDigest(
      chainIdOf(this.#network),
      claims.map(({ row, totalClaimed }) => ({
        channelId: row.channel_id,
        maxClaimableAmount: BigInt(row.signed),
        totalClaimed,
      })),
    );
    return {
      claims: claims.map(({ row, totalClaimed }) => ({
        voucher: { channel: JSON.parse(row.config), maxClaimableAmount: row.signed },
        signature: row.signature,
        totalClaimed: String(totalClaimed),
      })),
      claimAuthorizerSignature: await this.#sign(hash, claims[0].row),
    };
  }

  async #sign(hash: `0x${string}`, row: ChannelRow): Promise<`0x${string}`> {
    const { sign } = this.#authorizers.get(authorizerOf(row)) ?? {};
    if (sign === undefined) throw new Error("an account of a private key signs");
    return sign({ hash });
  }

  #settle(
    { asset, config }: ChannelRow,
    payload: Readonly<Record<string, unknown>>,
  ): Promise<SettlementAnswer> {
    return this.#ask({ asset, payTo: configIn(config).receiver }, payload);
  }

  async #ask(
    token: { readonly asset: string; readonly payTo: string },
    payload: Readonly<Record<string, unknown>>,
  ): Promise<SettlementAnswer> {
    const requirements = {
      ...{ scheme: SCHEME, network: this.#network, amount: "0", maxTimeoutSeconds: 0, extra: {} },
      ...token,
    };
    const facilitator = await this.#choose();
    if (facilitator === undefined) return { kind: "no_answer", reason: `no facilitator lists ${SCHEME}` };
    const paid = { x402Version: 2, accepted: requirements, payload };
    return facilitator.settle({ payload: paid, requirements });
  }

  /** Returns the first facilitator that lists the scheme. */
  async #choose(): Promise<Facilitator | undefined> {
    if (this.#chosen !== undefined && performance.now() - this.#chosen.at < FRESH_MS)
      return this.#chosen.facilitator;
    for (const facilitator of this.#facilitators()) {
      const supported = await facilitator.supported().catch(() => undefined);
      const takes = supported?.kinds.some(
        ({ scheme, network, x402Version }) =>
          x402Version === 2 && scheme === SCHEME && takesNetwork([network], this.#network),
      );
      if (takes !== true) continue;
      this.#chosen = { facilitator, at: performance.now() };
      return facilitator;
    }
    // No facilitator responds. The facilitator that answered last might still settle the scheme.
    return this.#chosen?.facilitator;
  }
}

/** Returns the account that signs claims and refunds of a channel. Lower case. */
export function authorizerOf({ config }: Pick<ChannelRow, "config">): string {
  return configIn(config).receiverAuthorizer.toLowerCase();
}

function configIn(config: string): ChannelConfig {
  return JSON.parse(config) as ChannelConfig;
}
