import type { Logger } from "pino";
import type { AcceptedToken } from "../../config/config.ts";
import { faultPoint } from "../../core/fault-points.ts";
import { oneSpelling } from "../../core/payment.ts";
import { authorizerOf, type ChannelsFacilitator, type Claim } from "./channels-facilitator.ts";
import type { ChannelsConfig } from "./config.ts";
import { type ChannelState, claimable, type SeenChannel } from "./store/chain-rules.ts";
import type { ChannelLedger, DuePlace } from "./store/ledger.ts";
import type { ChannelRow } from "./store/row.ts";
import { claimGoal, dueOf } from "./store/rules.ts";

/** Channel that was compared with its chain, and the channel's states in the newest block and in a confirmed block. */
export interface Looked {
  readonly row: ChannelRow;
  readonly latest: ChannelState;
  readonly confirmed: SeenChannel;
}

interface Parts {
  readonly network: string;
  readonly config: Pick<ChannelsConfig, "claimAt" | "minClaim" | "claimEverySecs" | "withdrawDelaySecs">;
  readonly ledger: Pick<ChannelLedger, "listDueChannels" | "askClaims">;
  readonly facilitator: Pick<ChannelsFacilitator, "canSign" | "claim">;
  /** The tokens of the network that are offered for channels. */
  readonly tokens: () => readonly AcceptedToken[];
  /** Compares channels with their chain. */
  readonly look: (rows: readonly ChannelRow[]) => Promise<readonly Looked[]>;
  /** Returns true if a claim of a channel may be requested again. */
  readonly mayAsk: (channelId: string) => boolean;
  readonly onClaimed: () => void;
  readonly logger: Logger;
}

/** Channels that one query returns. */
const PAGE = 500;
/** Most channels of one claim. A claim that fails is repeated for each channel alone. */
const MAX_CLAIMS = 20;
const USD_DECIMALS = 18;
/** Time limit of a refund, after which the final charges are claimed without it. */
const REFUND_MS = 30_000;

/** Claims final charges of the channels of one network, once there are enough of them or they are old enough. */
export class ChannelClaims {
  readonly #parts: Parts;
  /** Channels whose final charges are old, and channels whose claims wait for deposits. */
  readonly #old = new Set<string>();
  readonly #uncovered = new Set<string>();
  /**
   * Last urgent channel that was read, and last channel that was read among all channels. Each is undefined before the
   * first page.
   */
  readonly #after = { urgent: undefined as DuePlace | undefined, any: undefined as DuePlace | undefined };

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Makes the claims that are due, urgent claims first. */
  async makeDue(): Promise<void> {
    for (const which of ["urgent", "any"] as const) await this.#makeDueOf(await this.#nextPage(which));
  }

  /**
   * Reads the next channels. Each channel has its turn, even while other channels stay below the sum at which they are
   * claimed.
   */
  async #nextPage(which: "urgent" | "any"): Promise<readonly ChannelRow[]> {
    const { ledger, network } = this.#parts;
    const page = { isUrgent: which === "urgent", after: this.#after[which], limit: PAGE };
    const due = await ledger.listDueChannels(network, page);
    const last = due.length < PAGE ? undefined : due.at(-1);
    this.#after[which] = last && { dueSince: last.due_since ?? 0, channelId: last.channel_id };
    return due;
  }

  async #makeDueOf(due: readonly ChannelRow[]): Promise<void> {
    const { look, mayAsk } = this.#parts;
    const now = Date.now();
    for (const row of due) this.#alertIfOld(row, now);
    const wanted = due.filter((row) => this.#isDue(row, now) && mayAsk(row.channel_id));
    const claims = (await look(wanted)).flatMap((looked) => this.#claimOf(looked) ?? []);
    // The contract takes claims of one authorizer at a time.
    for (const authorizer of new Set(claims.map(({ row }) => authorizerOf(row)))) {
      const own = claims.filter(({ row }) => authorizerOf(row) === authorizer);
      while (own.length > 0) await this.#claimAll(own.splice(0, MAX_CLAIMS) as [Claim, ...Claim[]]);
    }
  }

  /** @returns undefined if nothing can be claimed now */
  #claimOf(looked: Looked): Claim | undefined {
    const { facilitator, logger } = this.#parts;
    const { row, latest } = looked;
    const { channel_id: channel, final, claimed } = row;
    if (!facilitator.canSign(row)) {
      logger.error(
        { channel },
        "a channel names an authorizer whose key is not configured: nothing is claimed",
      );
      return undefined;
    }
    const totalClaimed = claimable(row, looked);
    const isCovered = totalClaimed >= claimGoal(row);
    this.#alert(this.#uncovered, channel, !isCovered, () =>
      logger.error(
        { channel, final, claimed, covered: String(totalClaimed) },
        "claims of a channel wait: no confirmed block has the deposits that they need",
      ),
    );
    return totalClaimed > BigInt(latest.totalClaimed) ? { row, totalClaimed } : undefined;
  }

  async #claimAll(claims: readonly [Claim, ...Claim[]]): Promise<void> {
    const { ledger, facilitator, look, onClaimed, logger } = this.#parts;
    await ledger.askClaims(claims.map(({ row }) => row.channel_id));
    faultPoint("channels/before-claim");
    const answer = await facilitator.claim(claims);
    faultPoint("channels/after-claim");
    if (answer.kind === "success") {
      onClaimed();
      const { transaction } = answer;
      for (const { row, totalClaimed } of claims) {
        logger.info({ channel: row.channel_id, totalClaimed: String(totalClaimed), transaction }, "claimed");
      }
      await look(claims.map(({ row }) => row));
      return;
    }
    const channels = claims.map(({ row }) => row.channel_id);
    logger.warn({ channels, answer }, "a claim was not made; trying again");
    // One claim that cannot be made fails the whole transaction, so each claim is tried alone.
    if (answer.kind === "refused" && claims.length > 1)
      for (const claim of claims) await this.#claimAll([claim]);
  }

  /** Reports whether a sum of a channel is so small that it is not claimed. @param units token units */
  isLetGo(row: Pick<ChannelRow, "asset">, units: bigint): boolean {
    const { minClaim } = this.#parts.config;
    const dollars = this.#dollarsOf(row, units);
    return minClaim !== undefined && dollars !== undefined && dollars < minClaim.amount;
  }

  #isDue(row: ChannelRow, now: number): boolean {
    const { claimAt, claimEverySecs } = this.#parts.config;
    if (row.claim_soon === 1) return true;
    // The refund also claims the final charges.
    if (row.status === "refunding" && now - row.updated_at < REFUND_MS) return false;
    const due = dueOf(row);
    if (this.isLetGo(row, due)) return false;
    if (row.status !== "open") return true;
    if (now - (row.due_since ?? now) >= claimEverySecs * 1_000) return true;
    const dollars = this.#dollarsOf(row, due);
    return dollars !== undefined && dollars >= claimAt.amount;
  }

  /** @returns undefined for a token whose price is not a dollar */
  #dollarsOf({ asset }: Pick<ChannelRow, "asset">, units: bigint): bigint | undefined {
    const token = this.#parts.tokens().find((one) => oneSpelling(one.asset) === asset);
    if (token?.currency !== "USD") return undefined;
    return units * 10n ** BigInt(USD_DECIMALS - Math.min(USD_DECIMALS, token.decimals));
  }

  /** Reports charges that have waited so long that a withdrawal could end before they are claimed. */
  #alertIfOld(row: ChannelRow, now: number): void {
    const { config, logger } = this.#parts;
    const { channel_id: channel, due_since, final, claimed } = row;
    if (this.isLetGo(row, dueOf(row))) return;
    const isOld = now - (due_since ?? now) > (config.withdrawDelaySecs * 1_000) / 3;
    this.#alert(this.#old, channel, isOld, () =>
      logger.error({ channel, final, claimed }, "charges of a channel wait too long to be claimed"),
    );
  }

  /** Logs a problem of a channel once, and again only after the problem has ended. */
  #alert(troubled: Set<string>, channel: string, isTroubled: boolean, log: () => void): void {
    if (isTroubled && !troubled.has(channel)) log();
    if (isTroubled) troubled.add(channel);
    else troubled.delete(channel);
  }
}
