import type { Logger } from "pino";
import type { ChainClient } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { faultPoint } from "../../core/fault-points.ts";
import { LeaseLock, type Locks } from "../../core/lease-lock.ts";
import { oneSpelling } from "../../core/payment.ts";
import { readBlock } from "../../x402/settlement/block-view.ts";
import { confirmedBlock, readChannels } from "./chain.ts";
import type { ChannelsFacilitator } from "./channels-facilitator.ts";
import { ChargeCounter } from "./charge-counter.ts";
import { ChannelClaims, type Looked } from "./claims.ts";
import type { ChannelsConfig } from "./config.ts";
import type { ChannelConfig } from "./hashes.ts";
import { Receivers, type SettledSum } from "./receivers.ts";
import { type ChannelState, merged, type SeenChannel, seen } from "./store/chain-rules.ts";
import type { ChannelLedger } from "./store/ledger.ts";
import { type AskedRefund, type ChannelRefund, refundOf } from "./store/refund-rules.ts";
import type { ChannelRow } from "./store/row.ts";

/** Periods of the work on channels, milliseconds. */
export interface ChannelPeriods {
  /** Between two rounds. */
  readonly roundMs: number;
  /** Between two reads of the chain for withdrawals. */
  readonly watchMs: number;
  /** Between two requests for the same claim or settlement. */
  readonly retryMs: number;
}

interface Parts {
  readonly network: string;
  readonly config: Pick<ChannelsConfig, "claimAt" | "minClaim" | "claimEverySecs" | "withdrawDelaySecs">;
  readonly ledger: ChannelLedger;
  readonly locks: Locks;
  /** Unique to the life of this process. */
  readonly owner: string;
  readonly facilitator: ChannelsFacilitator;
  readonly client: ChainClient;
  /** The tokens of the network that are offered for channels. */
  readonly tokens: () => readonly AcceptedToken[];
  readonly periods: ChannelPeriods;
  readonly logger: Logger;
}

const LOCK_MS = { heldMs: 30_000, renewMs: 10_000 };
/** Channels and open charges that one query returns. */
const PAGE = 500;
/** Time to reserve for a claim and its retries before a withdrawal ends. */
const CLAIM_SECS = 600;
/** Requests whose times are kept. */
const MAX_ASKED = 10_000;

/**
 * Background work on the channels of one network. It counts calls that have ended, claims charges that are final, requests
 * settlement of the claims from a facilitator, sends the refunds that payers request, and watches for withdrawals. One process
 * does this work at a time. After a crash, it continues from the store and the chain. A claim names a sum and a refund has a number, so neither
 * moves money twice.
 */
export class NetworkChannels implements BackgroundService {
  readonly #parts: Parts;
  readonly #lock: LeaseLock;
  readonly #loop: BackgroundLoop;
  #watchedAt = Number.NEGATIVE_INFINITY;
  /**
   * Monotonic times of the last requests for claims, settlements and refunds, by channel or receiver. Without its time, a
   * request is only repeated earlier.
   */
  readonly #askedAt = boundedCache<string, number>(MAX_ASKED);
  /** Refunds that are being sent, by channel and number. */
  readonly #sending = new Map<string, Promise<ChannelRow | undefined>>();
  readonly #receivers: Receivers;
  readonly #claims: ChannelClaims;
  readonly #counter: ChargeCounter;

  constructor(parts: Parts) {
    const { network, locks, owner, logger, periods } = parts;
    this.#parts = parts;
    this.#counter = new ChargeCounter(parts.ledger);
    const mayAsk = (receiver: string) => this.#mayAsk(`settle ${receiver}`);
    this.#receivers = new Receivers({ ...parts, mayAsk });
    this.#claims = new ChannelClaims({
      ...parts,
      look: (rows) => this.#lookAll(rows),
      mayAsk: (channelId) => this.#mayAsk(`claim ${channelId}`),
      onClaimed: () => this.#receivers.noteClaim(),
    });
    this.#lock = new LeaseLock({ locks, name: `channels ${network}`, owner, ...LOCK_MS });
    this.#loop = new BackgroundLoop({
      step: () => this.#round(),
      retryMs: periods.roundMs,
      onTrouble: (error) => logger.warn({ err: error, network }, "could not work on channels; trying again"),
      onRecovery: () => logger.info({ network }, "channels are worked on again"),
    });
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#lock.giveUp(this.#parts.logger);
  }

  async #round(): Promise<number> {
    const { periods, ledger, network } = this.#parts;
    if (!(await this.#lock.hold())) return periods.roundMs;
    await this.#counter.countNext();
    for (const row of await ledger.listRefunding(network, PAGE)) await this.sendRefund(row);
    const now = performance.now();
    if (now - this.#watchedAt >= periods.watchMs) {
      await this.#watch();
      this.#receivers.noteClaim();
      this.#watchedAt = now;
    }
    await this.#claims.makeDue();
    await this.#receivers.settle();
    return periods.roundMs;
  }

  /** Adds the outcomes of a channel's charges to its sums. */
  count(channelId: string): Promise<void> {
    return this.#counter.count(channelId);
  }

  /** Sums that have moved to receivers; empty if another process works on the network. */
  get settled(): readonly SettledSum[] {
    return this.#receivers.settled;
  }

  /** Returns true for a channel whose claims and refunds can be signed. */
  canSign(row: ChannelRow): boolean {
    return this.#parts.facilitator.canSign(row);
  }

  /** Reads each channel in its newest confirmed block. */
  async readAll(rows: readonly Pick<ChannelRow, "channel_id" | "asset">[]): Promise<SeenChannel[]> {
    const rpc = await this.#parts.client.connect();
    const found = new Map<string, SeenChannel>();
    for (const confirmations of new Set(rows.map((row) => this.#confirmationsOf(row)))) {
      const ids = rows.flatMap((row) =>
        this.#confirmationsOf(row) === confirmations ? [row.channel_id] : [],
      );
      const block = await confirmedBlock(rpc, confirmations);
      const states = await readChannels(rpc, ids, block);
      for (const [i, id] of ids.entries())
        found.set(id, { ...(states[i] as ChannelState), block: Number(block) });
    }
    return rows.map(({ channel_id }) => found.get(channel_id) as SeenChannel);
  }

  /**
   * Compares a channel with its chain, for a refund. @returns the channel after the comparison, and the values on which the
   * refund depends
   */
  async look(row: ChannelRow): Promise<{ readonly row: ChannelRow; readonly chain: AskedRefund["chain"] }> {
    const [seen] = await this.#lookAll([row]);
    if (seen === undefined) throw new Error("a channel that was read has a state");
    const { refundNonce } = seen.confirmed;
    return { row: seen.row, chain: { ...seen.latest, refundNonce } };
  }

  /** Compares a channel with its chain, unless it was compared just now. Does nothing while the chain does not respond. */
  async refresh(row: ChannelRow): Promise<void> {
    if (this.#mayAsk(`look ${row.channel_id}`)) await this.look(row).catch(() => undefined);
  }

  /** Reads a channel in the newest confirmed block. */
  async read(row: Pick<ChannelRow, "channel_id" | "asset">): Promise<SeenChannel> {
    const [state] = await this.readAll([row]);
    return state as SeenChannel;
  }

  /**
   * Requests a journalled refund from a facilitator, unless the refund was paid. Callers share one request, because only its
   * answer has the hash of the transaction.
   * @returns the channel once the refund has ended; undefined until then
   */
  async sendRefund(row: ChannelRow): Promise<ChannelRow | undefined> {
    const refund = refundOf(row);
    if (refund === undefined) return undefined;
    const id = `${row.channel_id} ${refund.nonce}`;
    const sending = this.#sending.get(id);
    if (sending !== undefined) return sending;
    const sent = this.#askForRefund(row, refund).finally(() => this.#sending.delete(id));
    this.#sending.set(id, sent);
    return sent;
  }

  async #askForRefund(row: ChannelRow, refund: ChannelRefund): Promise<ChannelRow | undefined> {
    const { ledger, facilitator, logger, periods } = this.#parts;
    const { channel_id: channelId } = row;
    // The claim of the refund has to be settled, whoever sent it.
    this.#receivers.noteClaim();
    const end = async (transaction?: string) =>
      ledger.endChannelRefund(channelId, await this.read(row), transaction, refund.request);
    const ended = await end();
    if (ended !== undefined || !this.#mayAsk(`refund ${channelId} ${refund.nonce}`, periods.retryMs))
      return ended;
    faultPoint("channels/before-refund");
    const answer = await facilitator.refund(row, refund);
    faultPoint("channels/after-refund");
    if (answer.kind !== "success") {
      logger.warn({ channel: channelId, answer }, "a refund of a channel was not sent; trying again");
      return undefined;
    }
    const paid = await end(answer.transaction);
    if (paid)
      logger.info({ channel: channelId, amount: refund.amount, transaction: answer.transaction }, "refunded");
    return paid;
  }

  /** Compares every channel with the chain. */
  async #watch(): Promise<void> {
    const { ledger, network } = this.#parts;
    for (let after = ""; ; ) {
      const rows = await ledger.listChannels(network, { after, limit: PAGE });
      const looked = await this.#lookAll(
        // Channels with undecided deposits are read too, because a deposit that only the operator confirmed is counted once the
        // chain's balance covers the charges.
        rows.filter((row) => row.balance !== row.claimed || row.status !== "open" || row.deposits > 0),
      );
      await this.#makeFinal(looked.flatMap(({ row }) => (row.status === "withdrawing" ? row : [])));
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE) return;
      after = last.channel_id;
      await this.#lock.hold();
    }
  }

  /** Compares channels with the chain. @returns each channel after the comparison, and the chain's newest state */
  async #lookAll(rows: readonly ChannelRow[]): Promise<Looked[]> {
    if (rows.length === 0) return [];
    const rpc = await this.#parts.client.connect();
    const ids = rows.map(({ channel_id }) => channel_id);
    const newest = await readChannels(rpc, ids, "latest");
    const confirmed = await this.readAll(rows);
    return Promise.all(
      rows.map(async (row, i) => {
        const chain = { latest: newest[i] as ChannelState, confirmed: confirmed[i] as SeenChannel };
        return { row: await this.#compare(row, chain), ...chain };
      }),
    );
  }

  async #compare(row: ChannelRow, shown: Omit<Looked, "row">): Promise<ChannelRow> {
    const chain = merged(row, shown);
    // Most channels have not changed since the last read, so nothing is written for them.
    if (isEqual({ ...seen(row, chain, Date.now()), updated_at: row.updated_at }, row)) return row;
    const after = await this.#parts.ledger.seeChannel(row.channel_id, chain);
    if (after === undefined) return row;
    if (after.status !== row.status) this.#log(after);
    this.#logLoss(after, BigInt(after.lost) - BigInt(row.lost));
    return after;
  }

  /**
   * Makes pending charges final in channels whose withdrawals end soon, so that the charges are claimed before the
   * withdrawals end.
   */
  async #makeFinal(rows: readonly ChannelRow[]): Promise<void> {
    if (rows.length === 0) return;
    const { ledger, client, periods, logger } = this.#parts;
    const { timestamp } = await readBlock(await client.connect(), "latest");
    for (const { channel_id: channel, config, withdraw_at } of rows) {
      const { withdrawDelay } = JSON.parse(config) as ChannelConfig;
      const marginSecs = Math.min(withdrawDelay / 2, (2 * periods.watchMs) / 1_000 + CLAIM_SECS);
      if (Number(timestamp) < (withdraw_at ?? 0) + withdrawDelay - marginSecs) continue;
      // Calls that have ended are counted first, by their outcome.
      await this.#counter.count(channel);
      const charges = await ledger.listOpenCharges(channel, PAGE);
      const pending = charges.flatMap(({ state, call_id }) =>
        state === "open" || state === "asked" ? call_id : [],
      );
      if (pending.length === 0 || (await ledger.makeFinal(channel, pending)) === undefined) continue;
      logger.warn(
        { channel, calls: pending },
        "charges of calls that have not ended are claimed, because the payer withdraws",
      );
    }
  }

  #log({ channel_id: channel, status, reason }: ChannelRow): void {
    const { logger } = this.#parts;
    if (status === "stopped") logger.error({ channel, reason }, "a channel is stopped");
    else logger.warn({ channel, status }, "the status of a channel changed");
  }

  #logLoss(row: ChannelRow, units: bigint): void {
    if (units <= 0n) return;
    const { logger } = this.#parts;
    const level = this.#claims.isLetGo(row, units) ? "info" : "error";
    logger[level](
      { channel: row.channel_id, lost: String(units) },
      "charges of a channel are lost: its payer has withdrawn them",
    );
  }

  #mayAsk(what: string, waitMs = this.#parts.periods.retryMs): boolean {
    const now = performance.now();
    if (now - (this.#askedAt.get(what) ?? Number.NEGATIVE_INFINITY) < waitMs) return false;
    this.#askedAt.set(what, now);
    return true;
  }

  #confirmationsOf({ asset }: Pick<ChannelRow, "asset">): number {
    const tokens = this.#parts.tokens().filter((token) => oneSpelling(token.asset) === asset);
    return Math.max(1, ...tokens.map(({ confirmations }) => confirmations));
  }
}

function isEqual(one: ChannelRow, other: ChannelRow): boolean {
  return (Object.keys(one) as (keyof ChannelRow)[]).every((column) => one[column] === other[column]);
}
