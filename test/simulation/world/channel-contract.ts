import {
  CHANNELS_CONTRACT,
  type ChannelConfig,
  channelIdOf,
  voucherDigest,
} from "../../../src/parts/channels/hashes.ts";
import type { Act } from "./chain.ts";
import { signHash } from "./viem.ts";

/** A channel after a block. Amounts are token units. */
export interface ChannelState {
  readonly balance: bigint;
  readonly claimed: bigint;
  readonly refunds: number;
  /** Unix seconds. */
  readonly withdrawal: { readonly amount: bigint; readonly at: number } | undefined;
}

/** A sum that a claim takes under a signed voucher. */
export interface ChannelClaim {
  readonly config: ChannelConfig;
  readonly signed: bigint;
  readonly signature: string;
  readonly totalClaimed: bigint;
}

export const CHAIN_ID = 84_532;
const NO_CHANNEL: ChannelState = { balance: 0n, claimed: 0n, refunds: 0, withdrawal: undefined };
const NO_RECEIVER = { claimed: 0n, settled: 0n };
/** `channels(bytes32)`, `pendingWithdrawals(bytes32)`, `refundNonce(bytes32)` and `receivers(address,address)` */
const VIEWS = { channels: "7a7ebd7b", withdrawals: "b7f06ebe", refunds: "f0dc792e", receivers: "21ff6389" };
/** First bytes of code that reads several channels, bytes of it for each, and digits of the data of a call at its end. */
const TOGETHER = { begins: "0x6024", bytesEach: 258, inputDigits: 72 };

/** The rules of x402's contract for payment channels. */
export class ChannelContract {
  readonly #channels = new History(NO_CHANNEL);
  readonly #receivers = new History(NO_RECEIVER);
  /** Hears of withdrawals that end, when the state has them. */
  onWithdrawn: (channelId: string) => void = () => undefined;

  /** Returns a channel as it is after a block. Default: the newest one. */
  channel(id: string, block?: number): ChannelState {
    return this.#channels.at(id, block);
  }

  /** Returns what was claimed for a receiver and what of it has moved. */
  receiver(receiver: string, token: string, block?: number) {
    return this.#receivers.at(`${receiver} ${token}`, block);
  }

  /** Forgets what happened after a block. */
  rollBack(block: number): void {
    this.#channels.rollBack(block);
    this.#receivers.rollBack(block);
  }

  deposit(config: ChannelConfig, amount: bigint): Act {
    return this.#act(`a deposit of ${amount}`, config, (channel) => ({
      ...channel,
      balance: channel.balance + amount,
    }));
  }

  claim(claims: readonly ChannelClaim[]): Act {
    return {
      name: `a claim of ${claims.map(({ totalClaimed }) => totalClaimed)}`,
      run: (block) => {
        if (!claims.every((claim) => this.#isClaimable(claim))) return false;
        for (const claim of claims) this.#take(claim, block.number);
        return true;
      },
    };
  }

  /** @param token lower case, as the receiver */
  settle(receiver: string, token: string): Act {
    return {
      name: "a settlement of claims",
      run: ({ number }) => {
        const { claimed } = this.receiver(receiver, token);
        this.#receivers.add(`${receiver} ${token}`, number, { claimed, settled: claimed });
        return true;
      },
    };
  }

  refund(config: ChannelConfig, amount: bigint, nonce: number, claims: readonly ChannelClaim[]): Act {
    const refund = this.#act(`refund ${nonce} of ${amount}`, config, (channel) => {
      if (nonce !== channel.refunds) return undefined;
      const refunded = least(amount, channel.balance - channel.claimed);
      const pending = channel.withdrawal;
      const left = (pending?.amount ?? 0n) - refunded;
      return {
        ...channel,
        refunds: channel.refunds + 1,
        balance: channel.balance - refunded,
        withdrawal: pending && left > 0n ? { ...pending, amount: left } : undefined,
      };
    });
    const claim = this.claim(claims);
    return {
      name: claims.length > 0 ? `${claim.name} and ${refund.name}` : refund.name,
      run: (block) => nonce === this.channel(idOf(config)).refunds && claim.run(block) && refund.run(block),
    };
  }

  /** The payer asks for all that is not claimed. */
  initiateWithdraw(config: ChannelConfig): Act {
    return this.#act("the beginning of a withdrawal", config, (channel, { timestamp }) => {
      const amount = channel.balance - channel.claimed;
      if (channel.withdrawal !== undefined || amount === 0n) return undefined;
      return { ...channel, withdrawal: { amount, at: timestamp } };
    });
  }

  finalizeWithdraw(config: ChannelConfig): Act {
    const act = this.#act("the end of a withdrawal", config, (channel, { timestamp }) => {
      const { withdrawal, balance, claimed } = channel;
      if (withdrawal === undefined || timestamp < withdrawal.at + config.withdrawDelay) return undefined;
      return {
        ...channel,
        balance: balance - least(withdrawal.amount, balance - claimed),
        withdrawal: undefined,
      };
    });
    const run: Act["run"] = (block) => {
      const isDone = act.run(block);
      if (isDone) this.onWithdrawn(idOf(config));
      return isDone;
    };
    return { ...act, run };
  }

  /** Answers an `eth_call` of a view, or of code that reads several channels. @returns undefined for other calls */
  view(to: string | undefined, data: string, block: number): string | undefined {
    if (to?.toLowerCase() === CHANNELS_CONTRACT) return `0x${this.#view(data.slice(2), block)}`;
    if (to !== undefined || !data.startsWith(TOGETHER.begins)) return undefined;
    const count = Math.floor((data.length / 2 - 1) / TOGETHER.bytesEach);
    const inputs = data.slice(-3 * count * TOGETHER.inputDigits);
    const calls = Array.from({ length: 3 * count }, (_, i) =>
      inputs.slice(i * TOGETHER.inputDigits, (i + 1) * TOGETHER.inputDigits),
    );
    return `0x${calls.map((call) => this.#view(call, block)).join("")}`;
  }

  #view(call: string, block: number): string {
    const [selector, id] = [call.slice(0, 8), `0x${call.slice(8, 72)}`];
    const { balance, claimed, refunds, withdrawal } = this.channel(id, block);
    switch (selector) {
      case VIEWS.channels:
        return word(balance) + word(claimed);
      case VIEWS.withdrawals:
        return word(withdrawal?.amount ?? 0n) + word(withdrawal?.at ?? 0);
      case VIEWS.refunds:
        return word(refunds);
      case VIEWS.receivers: {
        const sums = this.receiver(`0x${call.slice(32, 72)}`, `0x${call.slice(96, 136)}`, block);
        return word(sums.claimed) + word(sums.settled);
      }
      default:
        throw new Error(`the contract for channels has no function ${selector}`);
    }
  }

  #isClaimable({ config, signed, signature, totalClaimed }: ChannelClaim): boolean {
    const id = idOf(config);
    const { balance, claimed } = this.channel(id);
    if (totalClaimed <= claimed) return true;
    const proof = signHash(config.payerAuthorizer, voucherDigest(CHAIN_ID, id, signed));
    return totalClaimed <= signed && totalClaimed <= balance && signature === proof;
  }

  #take({ config, totalClaimed }: ChannelClaim, block: number): void {
    const { receiver, token } = config;
    const channel = this.channel(idOf(config));
    if (totalClaimed <= channel.claimed) return;
    const sums = this.receiver(receiver, token);
    const claimed = sums.claimed + totalClaimed - channel.claimed;
    this.#channels.add(idOf(config), block, { ...channel, claimed: totalClaimed });
    this.#receivers.add(`${receiver} ${token}`, block, { ...sums, claimed });
  }

  /** @param change returns undefined for a transaction that reverts */
  #act(
    name: string,
    config: ChannelConfig,
    change: (channel: ChannelState, block: { readonly timestamp: number }) => ChannelState | undefined,
  ): Act {
    const id = idOf(config);
    return {
      name: `${name} of channel ${id.slice(-6)}`,
      run: (block) => {
        const after = change(this.channel(id), block);
        if (after !== undefined) this.#channels.add(id, block.number, after);
        return after !== undefined;
      },
    };
  }
}

/** Values by key, each as it is after blocks. */
class History<Value> {
  readonly #values = new Map<string, { readonly block: number; readonly value: Value }[]>();
  readonly #none: Value;

  constructor(none: Value) {
    this.#none = none;
  }

  at(key: string, block = Number.POSITIVE_INFINITY): Value {
    return this.#values.get(key)?.findLast((one) => one.block <= block)?.value ?? this.#none;
  }

  add(key: string, block: number, value: Value): void {
    this.#values.set(key, [...(this.#values.get(key) ?? []), { block, value }]);
  }

  rollBack(block: number): void {
    for (const values of this.#values.values()) while ((values.at(-1)?.block ?? 0) > block) values.pop();
  }
}

export function idOf(config: ChannelConfig): string {
  return channelIdOf(CHAIN_ID, config);
}

function least(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

function word(value: bigint | number): string {
  return value.toString(16).padStart(64, "0");
}
