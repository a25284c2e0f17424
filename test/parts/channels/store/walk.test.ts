import { expect, test } from "vitest";
import type { PaymentState } from "../../../../src/core/payment.ts";
import {
  type ChannelState,
  claimable,
  merged,
  seen,
} from "../../../../src/parts/channels/store/chain-rules.ts";
import { refundDecision, refundEnded } from "../../../../src/parts/channels/store/refund-rules.ts";
import type { ChannelRow, ChargeRow } from "../../../../src/parts/channels/store/row.ts";
import {
  brokenSum,
  claimGoal,
  claiming,
  counted,
  decided,
  failed,
  madeFinal,
  refusalOf,
  revived,
  succeeded,
  taken,
  unusedOf,
} from "../../../../src/parts/channels/store/rules.ts";
import { type Random, randomFrom } from "../../../helpers/seeded-random.ts";

const ID = `0x${"c".repeat(64)}`;
const CHANNEL = {
  network: "eip155:1",
  asset: "0xa",
  symbol: "USDC",
  decimals: 6,
  config: "{}",
  signature: "0x1",
};

/** Blocks that a view of the chain may lag behind. */
const LAG = 2;

/** A deposit that a payment brings. */
interface Deposit {
  readonly amount: bigint;
  /** Block that has it; undefined while it is not made. */
  block: number | undefined;
  state: PaymentState;
}

/** One channel, its contract and its calls, driven at random. */
class ModelChannel {
  readonly #random: Random;
  row: ChannelRow | undefined;
  readonly charges = new Map<number, ChargeRow>();
  readonly #deposits = new Map<number, Deposit>();
  readonly #made = new Set<number>();
  /** States of the channel by block. */
  readonly #blocks: ChannelState[] = [{ balance: "0", totalClaimed: "0", refundNonce: "0", withdrawAt: 0 }];
  deposited = 0n;
  paidBack = 0n;
  /** Token units that calls have used, by the ids of the calls that ended without failing. */
  readonly #used = new Map<number, bigint>();
  /** Token units that the seller owes beside the channel, because they were claimed before their call ended. */
  readonly #owed = new Map<number, bigint>();
  #now = 1;

  constructor(random: Random) {
    this.#random = random;
  }

  get chain(): ChannelState {
    return this.#blocks.at(-1) as ChannelState;
  }

  step(): void {
    this.#now++;
    const random = this.#random;
    const one = random(14);
    if (one < 3) this.#buy();
    else if (one === 3) this.#makeDeposit();
    else if (one === 4) this.#decideDeposit();
    else if (one < 7) this.#end();
    else if (one === 7) this.#count(this.#listed(4));
    else if (one === 8) this.#askClaim();
    else if (one === 9) this.#refund();
    else if (one === 10) this.#withdraw();
    else if (one === 11) this.#depositBySomebody();
    else this.#look();
  }

  #mine(change: Partial<ChannelState>): number {
    this.#blocks.push({ ...this.chain, ...change });
    return this.#blocks.length - 1;
  }

  #add(amount: bigint): number {
    this.deposited += amount;
    return this.#mine({ balance: `${BigInt(this.chain.balance) + amount}` });
  }

  #buy(): void {
    const base = BigInt(this.row?.base ?? 0);
    const amount = BigInt(1 + this.#random(20));
    // The lowest deposit is a price.
    const deposit = this.#random(4) === 0 ? amount + BigInt(this.#random(100)) : 0n;
    const wrong = this.#random(5) === 0 ? 1n : 0n;
    const next = { ...CHANNEL, channelId: ID, cumulative: base + amount + wrong, amount, deposit };
    if (refusalOf(this.row, next) !== undefined) return;
    expect(wrong).toBe(0n);
    const callId = this.charges.size + 1;
    this.row = taken(this.row, next, callId, this.#now);
    this.charges.set(callId, {
      ...{ call_id: callId, channel_id: ID, cumulative: `${next.cumulative}` },
      ...{
        amount: `${amount}`,
        used: `${amount}`,
        deposit: `${deposit}`,
        is_counted: 0,
        created_at: 0,
        charges_back: 1,
      },
      on_failure: ["refund", "keep", "ask"][this.#random(3)] as string,
      state: deposit > 0n ? "undecided" : "open",
    });
    if (deposit > 0n) this.#deposits.set(callId, { amount: deposit, block: undefined, state: "intent" });
  }

  /** The chain may make a deposit at any time, and late. */
  #makeDeposit(): void {
    const open = [...this.#deposits.values()].filter(({ block }) => block === undefined);
    const one = open[this.#random(Math.max(1, open.length))];
    if (one !== undefined) one.block = this.#add(one.amount);
  }

  #decideDeposit(): void {
    const one = [...this.#deposits.values()].find(({ state }) => state === "intent");
    if (one === undefined) return;
    if (one.block !== undefined) one.state = "settled";
    else if (this.#random(3) === 0) one.state = "failed";
  }

  #depositBySomebody(): void {
    if (this.row !== undefined && this.#random(3) === 0) this.#add(BigInt(1 + this.#random(50)));
  }

  #isSold(callId: number): boolean {
    const deposit = this.#deposits.get(callId);
    return deposit === undefined || deposit.state === "settled";
  }

  #end(): void {
    const running = [...this.charges.values()].filter(
      ({ state, call_id }) =>
        (["open", "undecided"].includes(state) || this.#made.has(call_id)) && this.#isSold(call_id),
    );
    const one = running[this.#random(Math.max(1, running.length))];
    if (one === undefined) return;
    if (this.#random(3) > 0) this.#succeed(one);
    else this.charges.set(one.call_id, failed(one) ?? one);
    const asked = [...this.charges.values()].find(({ state }) => state === "asked");
    if (asked === undefined || this.#random(2) === 0) return;
    const next = this.#random(3) === 0 ? revived(asked) : decided(asked, this.#random(2) === 0);
    this.charges.set(asked.call_id, next ?? asked);
  }

  /** A call ends once. It has used all, a part or nothing of its amount. */
  #succeed(one: ChargeRow): void {
    if (this.#used.has(one.call_id)) return;
    const amount = Number(one.amount);
    const used = this.#random(2) === 0 ? amount : this.#random(amount);
    this.#used.set(one.call_id, BigInt(used));
    this.#owed.set(one.call_id, unusedOf(one, `${used}`));
    this.charges.set(one.call_id, succeeded(one, `${used}`) ?? one);
  }

  /** Some may fail, and be counted later, than the charge below the base is read. */
  #listed(most: number): ChargeRow[] {
    return [...this.charges.values()].filter(
      ({ is_counted }) => is_counted === 0 && (most === 0 || this.#random(most) > 0),
    );
  }

  #count(listed: readonly ChargeRow[]): void {
    if (this.row === undefined) return;
    const stands = [...this.charges.values()]
      // What is not listed may have failed since the list was made.
      .filter((one) => one.is_counted === 0 && (one.state !== "returned" || !listed.includes(one)))
      .filter(({ call_id }) => call_id !== this.row?.base_call);
    const next = stands.reduce<ChargeRow | undefined>(
      (one, other) => (one === undefined || isHigher(other, one) ? other : one),
      undefined,
    );
    const paymentOf = (callId: number) => {
      const { state, block } = this.#deposits.get(callId) ?? { state: "settled" as const, block: undefined };
      return { state, block_number: block === undefined ? null : String(block) };
    };
    this.#keep(counted(this.row, listed, next, paymentOf, this.#now));
  }

  #keep({ row, charges }: ReturnType<typeof counted>): void {
    this.row = row;
    for (const one of charges) this.charges.set(one.call_id, one);
  }

  #askClaim(): void {
    const asked = claiming(this.row, this.#now);
    if (asked === undefined) return;
    this.row = asked;
    // The transaction may be lost.
    if (this.#random(3) > 0) this.#claim(claimable(asked, { latest: this.chain, confirmed: this.chain }));
  }

  #refund(): void {
    const decision = refundDecision(this.row, { amount: undefined, chain: this.chain }, this.#now);
    if (decision.kind !== "refunding") return;
    this.row = decision.row;
    const { nonce, amount, totalClaimed } = decision.refund;
    if (nonce === this.chain.refundNonce && this.#random(3) > 0) {
      this.#claim(BigInt(totalClaimed));
      this.#payBack(BigInt(amount), { refundNonce: `${BigInt(nonce) + 1n}`, withdrawAt: 0 });
    }
    const chain = { ...this.chain, block: this.#blocks.length - 1 };
    this.row = refundEnded(this.row, chain, undefined, this.#now) ?? this.row;
  }

  /** Begins a withdrawal, or ends it after what is charged was made final and claimed. */
  #withdraw(): void {
    if (this.chain.withdrawAt === 0) {
      if (this.row !== undefined && this.#random(3) === 0) this.#mine({ withdrawAt: this.#now });
      return;
    }
    if (this.row?.status !== "withdrawing") return;
    // Payments are decided within the delay.
    for (const deposit of this.#deposits.values())
      if (deposit.state === "intent" && deposit.block !== undefined) deposit.state = "settled";
    this.#count(this.#listed(0));
    const pending = this.#listed(0).filter(({ state }) => state === "open" || state === "asked");
    const final = madeFinal(this.row, pending, this.#now);
    if (final !== undefined) this.#keep(final);
    for (const { call_id } of final?.charges ?? []) this.#made.add(call_id);
    const asked = claiming(this.row, this.#now);
    // Claims may not be made in time.
    if (asked !== undefined && this.#random(4) > 0) {
      this.row = asked;
      this.#claim(claimGoal(asked));
    }
    // A withdrawal takes longer than any node lags behind.
    for (let block = 0; block < LAG; block++) this.#mine({});
    this.#payBack(BigInt(1 + this.#random(200)), { withdrawAt: 0 });
  }

  /** As the contract does it. */
  #claim(totalClaimed: bigint): void {
    if (totalClaimed <= BigInt(this.chain.totalClaimed)) return;
    expect(totalClaimed).toBeLessThanOrEqual(BigInt(this.row?.signed ?? 0));
    expect(totalClaimed).toBeLessThanOrEqual(BigInt(this.chain.balance));
    this.#mine({ totalClaimed: `${totalClaimed}` });
  }

  #payBack(asked: bigint, change: Partial<ChannelState>): void {
    const { balance, totalClaimed } = this.chain;
    const left = BigInt(balance) - BigInt(totalClaimed);
    const amount = asked < left ? asked : left;
    this.paidBack += amount;
    this.#mine({ ...change, balance: `${BigInt(balance) - amount}` });
  }

  /** Looks at the chain, in a block that may lag behind. */
  #look(): void {
    if (this.row === undefined) return;
    const block = Math.max(0, this.#blocks.length - 1 - this.#random(LAG + 1));
    const confirmed = { ...(this.#blocks[block] as ChannelState), block };
    this.row = seen(this.row, merged(this.row, { latest: this.chain, confirmed }), this.#now);
  }

  check(): void {
    const { row, chain } = this;
    if (row === undefined) return;
    // claimed <= final <= charged <= signed, and charged <= deposited
    expect(brokenSum(row)).toBeUndefined();
    const charges = [...this.charges.values()];
    const isCounted = ({ is_counted }: ChargeRow) => is_counted === 1;
    const amounts = (wanted: (one: ChargeRow) => boolean) =>
      charges.filter(wanted).reduce((sum, one) => sum + BigInt(isCounted(one) ? one.used : one.amount), 0n);
    // What was charged of a call is what it has used, and what is owed back.
    for (const one of charges.filter((of) => isCounted(of) && of.state === "kept")) {
      const used = this.#used.get(one.call_id);
      if (used !== undefined) expect(BigInt(one.used)).toBe(used + (this.#owed.get(one.call_id) ?? 0n));
    }
    const standing = charges.filter((one) => !(isCounted(one) && one.state === "returned"));
    const vouchers = standing.map(({ cumulative }) => Number(cumulative));
    expect(Number(row.base)).toBe(Math.max(0, ...vouchers));
    // No voucher that stands has bought two calls.
    expect(new Set(vouchers).size).toBe(vouchers.length);
    // charged = delivered + kept + open
    expect(BigInt(row.charged)).toBe(amounts((one) => !(isCounted(one) && one.state === "returned")));
    expect(BigInt(row.final)).toBe(amounts((one) => isCounted(one) && one.state === "kept"));
    expect(BigInt(chain.totalClaimed)).toBeLessThanOrEqual(BigInt(row.asked));
    const unmade = amounts(({ call_id, is_counted }) => is_counted === 0 && !this.#isSold(call_id));
    expect(BigInt(row.charged) - unmade).toBeLessThanOrEqual(this.deposited);
    // No deposit counts twice, whoever has sent it.
    if (row.status === "open" && chain.withdrawAt === 0)
      expect(BigInt(row.balance)).toBeLessThanOrEqual(BigInt(chain.balance));
    // What was charged stays covered, whatever was paid back.
    if (row.deposits === 0 && row.status === "open")
      expect(BigInt(row.charged) - BigInt(row.lost)).toBeLessThanOrEqual(BigInt(row.balance));
    expect([row.status, row.reason]).not.toContain("stopped");
  }
}

function isHigher(one: ChargeRow, other: ChargeRow): boolean {
  return BigInt(one.cumulative) > BigInt(other.cumulative);
}

test("The sums of a channel hold whatever happens in whatever order", () => {
  for (let seed = 1; seed <= 15; seed++) {
    const channel = new ModelChannel(randomFrom(seed));
    for (let step = 0; step < 100; step++) {
      channel.step();
      channel.check();
    }
  }
});
