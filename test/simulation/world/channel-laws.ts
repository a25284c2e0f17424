import { CHANNELS } from "../../../src/parts/channels/store/module.ts";
import type { ChannelRow, ChargeRow } from "../../../src/parts/channels/store/row.ts";
import type { Committed } from "../../../src/store/operations.ts";
import type { Chain } from "./chain.ts";
import type { ChannelBuyer } from "./channel-buyer.ts";
import { CHANNEL_JOBS } from "./channel-buyer.ts";
import { idOf } from "./channel-contract.ts";
import { claimOf, type SentPayload } from "./channel-facilitator.ts";
import { type Laws, PRICE } from "./laws.ts";
import type { Simulation } from "./simulation.ts";

/** A charge, with its payment and the end of its call. */
interface Charge extends ChargeRow {
  readonly payment: string;
  readonly payer: string;
  readonly job_index: number;
  readonly payload: string;
  /** State of the finished call; null if it did not finish. */
  readonly end: string | null;
  /** 1 for a dead letter. */
  readonly is_dead: 0 | 1;
}

const CHARGES = `SELECT charge.*, payment.state AS payment, payment.payer, payment.job_index, payment.payload,
    (SELECT state FROM finished_calls WHERE call_id = charge.call_id) AS "end",
    EXISTS (SELECT 1 FROM job_calls WHERE call_id = charge.call_id AND state = 'dead') AS is_dead
  FROM channel_charges AS charge JOIN payments AS payment USING (call_id)`;

/** Laws of payment channels: of the store's sums, of the contract, and of what was sold. */
export class ChannelLaws {
  readonly #simulation: Simulation;
  readonly #chain: Chain;
  readonly #confirmations: number;
  readonly #buyers: readonly ChannelBuyer[];
  readonly #arePushed: boolean;
  readonly #rows: () => ChannelRow[];
  readonly #charges: () => Charge[];
  readonly #row: (id: string) => ChannelRow | undefined;
  readonly #chargeOf: (callId: number) => Charge | undefined;
  /** Channels that a store knows to be withdrawn from. */
  readonly #withdrawing = new Set<string>();
  /** Channels that were withdrawn from at any time. */
  readonly #withdrawn = new Set<string>();

  constructor(parts: {
    readonly simulation: Simulation;
    readonly laws: Laws;
    readonly chain: Chain;
    readonly confirmations: number;
    readonly buyers: readonly ChannelBuyer[];
    /** Some calls are pushed, and charge all that they may. */
    readonly arePushed: boolean;
  }) {
    const { simulation, laws, chain, confirmations, buyers, arePushed } = parts;
    this.#arePushed = arePushed;
    this.#simulation = simulation;
    this.#chain = chain;
    this.#confirmations = confirmations;
    this.#buyers = buyers;
    const rows = laws.prepare<ChannelRow>("SELECT * FROM channels");
    const charges = laws.prepare<Charge>(CHARGES);
    const chargeOf = laws.prepare<Charge>(`${CHARGES} WHERE charge.call_id = ?`);
    const row = laws.prepare<ChannelRow>("SELECT * FROM channels WHERE channel_id = ?");
    this.#rows = () => rows.all([]);
    this.#charges = () => charges.all([]);
    this.#chargeOf = (callId) => chargeOf.get([callId]);
    this.#row = (id) => row.get([id]);
    for (const buyer of buyers) laws.watch(buyer.name, (callId) => this.#delivered(buyer, callId));
    laws.onCommit((committed) => this.#committed(committed));
    laws.atEachBlock(() => this.#check());
    laws.atEnd(() => this.#checkEnd());
    chain.channels.onWithdrawn = (id) => this.#withdrawalEnded(id);
  }

  /** Nothing waits to be claimed, counted or paid back. */
  isQuiet(): boolean {
    const isOpen = this.#rows().some(
      ({ status, deposits, due_since }) => status !== "open" || deposits > 0 || due_since !== null,
    );
    return !isOpen && this.#charges().every(({ is_counted }) => is_counted === 1) && this.#areSettled();
  }

  /** A facilitator is asked to send something. */
  asked(payload: SentPayload): void {
    if (payload.type !== "claim" && payload.type !== "refund") return;
    for (const claim of payload.claims.map(claimOf)) {
      const row = this.#row(idOf(claim.config));
      const { asked = "0", final = "0", lost = "0" } = row ?? {};
      const sum = claim.totalClaimed;
      if (sum > BigInt(asked)) this.#break(row, `a claim of ${sum} was sent before it was journalled`);
      if (sum > BigInt(final) - BigInt(lost)) this.#break(row, `${sum} is claimed, and ${final} are final`);
      if (sum > claim.signed) this.#break(row, `${sum} is claimed, and ${claim.signed} are signed`);
    }
    if (payload.type !== "refund") return;
    const row = this.#row(idOf(payload.channelConfig));
    const { nonce } = JSON.parse(row?.refund ?? "{}") as { nonce?: string };
    if (nonce === undefined || Number(nonce) < Number(payload.refundNonce))
      this.#break(row, `refund ${payload.refundNonce} was sent before it was journalled`);
  }

  #check(): void {
    const charges = this.#charges();
    for (const row of this.#rows())
      this.#checkChannel(
        row,
        charges.filter(({ channel_id }) => channel_id === row.channel_id),
      );
  }

  #checkChannel(row: ChannelRow, charges: readonly Charge[]): void {
    const shown = this.#chain.channels.channel(row.channel_id);
    const buyer = this.#buyers.find(({ config }) => config && idOf(config) === row.channel_id);
    const [claimed, final, charged, signed, lost] = [
      row.claimed,
      row.final,
      row.charged,
      row.signed,
      row.lost,
    ].map(BigInt) as [bigint, bigint, bigint, bigint, bigint];
    if (claimed + lost > final || final > charged || charged > signed)
      this.#break(
        row,
        `claimed ${claimed}, lost ${lost}, final ${final}, charged ${charged}, signed ${signed}`,
      );
    if (shown.claimed > final)
      this.#break(row, `the chain has claims of ${shown.claimed}, and ${final} are final`);
    const ended = sum(charges.filter(isKept).map(({ used }) => used));
    const open = sum(charges.filter(({ is_counted }) => is_counted === 0).map(({ amount }) => amount));
    if (final !== ended) this.#break(row, `final ${final}, and the calls that were kept come to ${ended}`);
    if (charged !== ended + open) this.#break(row, `charged ${charged}, kept ${ended} and open ${open}`);
    if (!buyer?.signed.has(signed)) this.#break(row, `${signed} is signed by nobody`);
    this.#checkVouchers(row, charges, buyer);
    const covered = charges.filter(
      ({ state, is_counted }) => is_counted === 0 && state !== "undecided" && state !== "returned",
    );
    const standing = ended + sum(covered.map(({ amount }) => amount)) - lost;
    if (standing > shown.balance)
      this.#break(row, `${standing} are charged, and the deposits on the chain are ${shown.balance}`);
    if (row.reason?.includes("not made")) this.#break(row, `it is stopped: ${row.reason}`);
    if (lost > 0n) this.#break(row, `${lost} are lost`);
  }

  #checkVouchers(row: ChannelRow, charges: readonly Charge[], buyer: ChannelBuyer | undefined): void {
    const standing = charges.filter(({ state }) => state !== "returned");
    const sums = new Set(standing.map(({ cumulative }) => cumulative));
    if (sums.size < standing.length) this.#break(row, "a voucher has bought two calls");
    for (const { cumulative, amount, call_id } of charges) {
      if (BigInt(amount) !== PRICE) this.#break(row, `JobCall ${call_id} costs ${amount}`);
      if (!buyer?.signed.has(BigInt(cumulative)))
        this.#break(row, `JobCall ${call_id} was bought with ${cumulative}, which nobody has signed`);
    }
  }

  /** A runner gets a JobCall. */
  #delivered(buyer: ChannelBuyer, callId: number): void {
    const charge = this.#chargeOf(callId);
    if (charge === undefined || charge.payer !== buyer.payer) {
      this.#simulation.break(`JobCall ${callId} of ${buyer.name} runs, and no voucher pays for it`);
      return;
    }
    const { payload } = JSON.parse(charge.payload) as { payload: { deposit?: object } };
    if (payload.deposit === undefined) return;
    const shown = this.#chain.channels.channel(
      charge.channel_id,
      this.#chain.head.number - (this.#confirmations - 1),
    );
    if (shown.balance === 0n && shown.refunds === 0 && !this.#withdrawn.has(charge.channel_id))
      this.#simulation.break(`JobCall ${callId} of ${buyer.name} runs, and its deposit is not confirmed`);
  }

  #committed(committed: Committed): void {
    if (committed.operation === "step") {
      const { name, outcome } = committed as { readonly name: string; readonly outcome: unknown };
      if (!(name in (CHANNELS.steps ?? {}))) return;
      for (const row of [outcome].flat() as (Partial<ChannelRow> | undefined)[]) {
        if (row?.channel_id === undefined) continue;
        if (row.status === "withdrawing") this.#withdrawing.add(row.channel_id);
        else this.#withdrawing.delete(row.channel_id);
      }
    } else if (committed.operation === "beginPayment") {
      const [{ transferMethod, payload }] = committed.input;
      if (transferMethod !== "channel" || committed.outcome.kind !== "begun") return;
      const { voucher } = (JSON.parse(payload) as { payload: { voucher: { channelId: string } } }).payload;
      if (this.#withdrawing.has(voucher.channelId))
        this.#simulation.break(
          `a voucher of channel ${voucher.channelId.slice(-6)} is taken, whose payer withdraws`,
        );
    }
  }

  /** A payer's withdrawal ends long after everything works again. */
  #withdrawalEnded(id: string): void {
    this.#withdrawn.add(id);
    const row = this.#row(id);
    const { claimed } = this.#chain.channels.channel(id);
    if (row !== undefined && claimed < BigInt(row.charged))
      this.#break(row, `a withdrawal ends with ${claimed} claimed of ${row.charged} that were charged`);
  }

  #areSettled(): boolean {
    return this.#buyers.every(({ config }) => {
      if (config === undefined) return true;
      const { claimed, settled } = this.#chain.channels.receiver(config.receiver, config.token);
      return claimed === settled;
    });
  }

  #checkEnd(): void {
    for (const row of this.#rows()) {
      const { claimed } = this.#chain.channels.channel(row.channel_id);
      if (BigInt(row.final) !== claimed)
        this.#break(row, `${row.final} are final, and ${claimed} are claimed`);
      if (row.charged !== row.final) this.#break(row, `${row.charged} are charged, and ${row.final} final`);
    }
    for (const charge of this.#charges()) this.#checkCharge(charge);
  }

  /** Holds a charge against the end of its call. */
  #checkCharge({
    call_id,
    state,
    used,
    job_index,
    end,
    is_dead,
    payment,
    on_failure,
    channel_id,
  }: Charge): void {
    const say = (what: string) =>
      this.#simulation.break(
        `JobCall ${call_id} is ${end ?? (is_dead ? "dead" : "gone")}, and its charge ${what}`,
      );
    if (payment === "failed") {
      if (state !== "returned") say(`stays although its deposit was not made: ${state}`);
      return;
    }
    // Calls that had not ended before a withdrawal did are charged whatever becomes of them.
    if (this.#withdrawn.has(channel_id)) return;
    const hasFailed = end !== "succeeded";
    if (hasFailed && on_failure === "refund" && state !== "returned") say(`is ${state}`);
    if (hasFailed && on_failure === "keep" && state !== "kept") say(`is ${state}`);
    if (hasFailed || (job_index === CHANNEL_JOBS.used && this.#arePushed)) return;
    const units = job_index === CHANNEL_JOBS.used ? (PRICE * ((BigInt(call_id) * 7n) % 11n)) / 10n : PRICE;
    if (units === 0n ? state !== "returned" : state !== "kept" || BigInt(used) !== units)
      say(`is ${state} with ${used} instead of ${units}`);
  }

  #break(row: ChannelRow | undefined, law: string): void {
    this.#simulation.break(`channel ${row?.channel_id.slice(-6) ?? "unknown"}: ${law}`);
  }
}

function isKept({ state, is_counted }: Charge): boolean {
  return state === "kept" && is_counted === 1;
}

function sum(amounts: readonly string[]): bigint {
  return amounts.reduce((all, amount) => all + BigInt(amount), 0n);
}
