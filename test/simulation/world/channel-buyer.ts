import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import type { PaymentRequirements } from "@x402/core/types";
import type { HttpResponse } from "../../../src/http/response.ts";
import { type ChannelConfig, voucherDigest } from "../../../src/parts/channels/hashes.ts";
import type { Chain } from "./chain.ts";
import { CHAIN_ID, idOf } from "./channel-contract.ts";
import { IMPOSSIBLE } from "./client.ts";
import { PRICE } from "./laws.ts";
import type { Customer, Surroundings } from "./part.ts";
import { Requests } from "./requests.ts";
import { signHash } from "./viem.ts";

const SCHEME = "batch-settlement";
/** Jobs that are sold for vouchers, by what becomes of the charge of one that fails; the last one is charged as used. */
export const CHANNEL_JOBS = { returned: 30, kept: 31, asked: 32, used: 33 } as const;
const MAX_SENDS = 6;
const MAX_SIGNED = 5;
const LOOK_MS = 3_000;
const SOME_SIGNATURE = `0x${"5".repeat(128)}1c`;

/** Sums of a channel that a gateway tells its payer. */
interface Told {
  readonly chargedCumulativeAmount?: string;
  readonly balance?: string;
}

/** A voucher that was sent with a request. */
interface Sent {
  readonly path: string;
  readonly body: string;
  readonly cumulative: bigint;
  readonly header: string;
}

interface Parts extends Surroundings {
  readonly chain: Chain;
  readonly number: number;
}

/** A client that deposits once, and pays calls by vouchers of its channel. */
export class ChannelBuyer implements Customer {
  readonly name: string;
  /** Sums that it has signed vouchers for. */
  readonly signed = new Set<bigint>();
  readonly payer: string;
  readonly #parts: Parts;
  readonly #requests: Requests;
  readonly #plans: boolean;
  #config: ChannelConfig | undefined;
  #accepted: PaymentRequirements | undefined;
  #base = 0n;
  #balance = 0n;
  #orders: number;
  #count = 0;
  #salt = 0;
  #isSold = false;
  #isWithdrawing = false;

  constructor(parts: Parts) {
    const { number, simulation } = parts;
    this.#parts = parts;
    this.name = `channel ${number}`;
    this.payer = `0x${number.toString(16).padStart(40, "c")}`;
    this.#orders = simulation.pick(`${this.name} wants calls`, [5, 15, 30]);
    this.#plans = simulation.random(`${this.name} withdraws`) < 0.5;
    this.#requests = new Requests({ ...parts, name: this.name });
  }

  get isDone(): boolean {
    return this.#isSold && !this.#isWithdrawing;
  }

  /** Its channel; undefined before it has an offer. */
  get config(): ChannelConfig | undefined {
    return this.#config;
  }

  start(): void {
    const { simulation } = this.#parts;
    if (this.#plans)
      this.#requests.later(simulation.delay(`${this.name} withdraws at`, 1_000, 50_000), () =>
        this.#withdraw(),
      );
    this.#price();
  }

  #price(): void {
    const path = pathOf(CHANNEL_JOBS.returned);
    this.#requests.send(postOf(path, `${this.name}: price`), "without a payment", (answer) => {
      const accepted = offerIn(answer);
      if (accepted === undefined) return this.#requests.later(1_000, () => this.#price());
      const { receiverAuthorizer, withdrawDelay } = accepted.extra as Record<string, never>;
      this.#config = {
        ...{ payer: this.payer, payerAuthorizer: this.payer, receiver: accepted.payTo.toLowerCase() },
        ...{
          receiverAuthorizer: String(receiverAuthorizer).toLowerCase(),
          token: accepted.asset.toLowerCase(),
        },
        ...{ withdrawDelay: Number(withdrawDelay), salt: word(0) },
      };
      this.#accepted = accepted;
      this.#next();
    });
  }

  /** Buys one call, or several at once, and goes on. */
  #next(): void {
    const { simulation } = this.#parts;
    if (this.#orders <= 0) {
      this.#isSold = true;
      return;
    }
    const many = this.#count > 0 && simulation.random(`${this.name} buys at once`) < 0.25 ? 3 : 1;
    this.#orders -= many;
    let left = many;
    const ended = () => {
      left--;
      if (left > 0) return;
      const restMs = simulation.delay(`${this.name} rests`, 1, 4_000);
      const refunds = simulation.random(`${this.name} asks for a refund`) < 0.1;
      this.#requests.later(restMs, () => (refunds ? this.#refund(() => this.#next()) : this.#next()));
    };
    for (let i = 0; i < many; i++) {
      const job = simulation.pick(`${this.name} buys`, Object.values(CHANNEL_JOBS));
      const isPossible = simulation.random(`${this.name} asks`) >= 0.15;
      const body = `${this.name}: ${this.#count++} ${isPossible ? "work" : IMPOSSIBLE}`;
      this.#sign(pathOf(job), body, MAX_SIGNED, ended);
    }
  }

  #sign(path: string, body: string, left: number, ended: () => void): void {
    if (left === 0) {
      ended();
      return;
    }
    const { simulation } = this.#parts;
    const signsLess = simulation.fault(`${this.name} signs less than the price`, 0.02);
    const cumulative = this.#base + PRICE - (signsLess ? 1n : 0n);
    const needsDeposit = this.#balance < cumulative;
    const header = this.#headerOf(
      needsDeposit ? { type: "deposit", deposit: this.#deposit() } : { type: "voucher" },
      cumulative,
    );
    this.#pay({ path, body, cumulative, header }, MAX_SENDS, (answer) => {
      if (answer?.status === 202) return ended();
      if (answer?.status === 402)
        return this.#requests.later(simulation.delay(`${this.name} signs again`, 1, 2_000), () =>
          this.#sign(path, body, left - 1, ended),
        );
      ended();
    });
  }

  #pay(sent: Sent, left: number, onEnd: (answer: HttpResponse | undefined) => void): void {
    const { simulation } = this.#parts;
    const { path, body, cumulative } = sent;
    if (left === 0) {
      onEnd(undefined);
      return;
    }
    if (simulation.fault(`${this.name} sends twice at once`, 0.1)) this.#send(sent, () => undefined);
    if (simulation.fault(`${this.name} sends another request`, 0.1))
      this.#send({ ...sent, body: body.replace("work", "more work") }, () => undefined);
    this.#send(sent, (answer) => {
      if (answer === undefined || answer.status >= 500 || answer.status === 429)
        return this.#requests.later(2_000, () => this.#pay(sent, left - 1, onEnd));
      this.#learn(answer);
      if (answer.status === 202 && simulation.fault(`${this.name} sends again what was accepted`, 0.15))
        return this.#requests.later(simulation.delay(`${this.name} repeats`, 1, 8_000), () =>
          this.#send(sent, () => onEnd(answer)),
        );
      simulation.say(`${this.name} hears ${answer.status} for ${cumulative} at ${path}`);
      onEnd(answer);
    });
  }

  #send(
    { path, body, cumulative, header }: Sent,
    onAnswer: (answer: HttpResponse | undefined) => void,
  ): void {
    const what = `${JSON.stringify(body)} with ${cumulative}`;
    this.#requests.send(postOf(path, body, header), what, onAnswer);
  }

  /** Takes over what a gateway says about the channel. */
  #learn(answer: HttpResponse): void {
    const told = toldIn(answer);
    if (told?.chargedCumulativeAmount !== undefined) this.#base = BigInt(told.chargedCumulativeAmount);
    if (told?.balance !== undefined) this.#balance = BigInt(told.balance);
    const isKnown = told !== undefined;
    // Its deposit was not made, or its channel takes nothing now.
    if (answer.status === 402 && !isKnown) {
      const { channels } = this.#parts.chain;
      this.#balance = this.#config === undefined ? 0n : channels.channel(idOf(this.#config)).balance;
      if (this.#balance === 0n) this.#base = 0n;
    }
  }

  #deposit(): object {
    const { simulation } = this.#parts;
    const times = simulation.pick(`${this.name} deposits`, [3n, 6n, 20n]);
    const amount = times * PRICE;
    this.#balance += amount;
    const secs = 20 + Math.floor(simulation.random(`${this.name} signs for seconds`) * 60);
    const validBefore = String(Math.floor(simulation.wallMs / 1_000) + secs);
    const salt = word(++this.#salt);
    simulation.say(`${this.name} signs deposit ${this.#salt} of ${amount} for ${secs} s`);
    const erc3009Authorization = { validAfter: "0", validBefore, salt, signature: SOME_SIGNATURE };
    return { amount: String(amount), authorization: { erc3009Authorization } };
  }

  #headerOf(payload: { readonly type: string; readonly deposit?: object }, cumulative: bigint): string {
    const channelConfig = this.#config;
    if (channelConfig === undefined) throw new Error("the channel is not known yet");
    this.signed.add(cumulative);
    const channelId = idOf(channelConfig) as `0x${string}`;
    const signature = signHash(this.payer, voucherDigest(CHAIN_ID, channelId, cumulative));
    const voucher = { channelId, maxClaimableAmount: String(cumulative), signature };
    const accepted = this.#accepted;
    return base64({ x402Version: 2, accepted, payload: { ...payload, channelConfig, voucher } });
  }

  #refund(goOn: () => void, left = 3): void {
    const { simulation } = this.#parts;
    if (left === 0) {
      goOn();
      return;
    }
    const header = this.#headerOf({ type: "refund" }, this.#base);
    const request = { ...postOf(pathOf(CHANNEL_JOBS.returned), "", header), method: "GET" as const };
    this.#requests.send(request, "a request for a refund", (answer) => {
      if (answer !== undefined) this.#learn(answer);
      if (answer?.status === 200 || answer?.status === 402) {
        simulation.say(`${this.name} hears ${answer.status} for its refund`);
        if (answer.status === 200) return goOn();
      }
      this.#requests.later(2_000, () => this.#refund(goOn, left - 1));
    });
  }

  /** Begins a withdrawal, and ends it once its delay is over. */
  #withdraw(): void {
    const { chain, simulation } = this.#parts;
    const config = this.#config;
    if (config === undefined || chain.channels.channel(idOf(config)).balance === 0n) {
      if (!simulation.isHealed) this.#requests.later(LOOK_MS, () => this.#withdraw());
      return;
    }
    this.#isWithdrawing = true;
    simulation.say(`${this.name} withdraws`);
    chain.send(undefined, chain.channels.initiateWithdraw(config));
    this.#requests.later(4 * LOOK_MS, () => this.#endWithdrawal(config));
  }

  #endWithdrawal(config: ChannelConfig): void {
    const { chain } = this.#parts;
    const { withdrawal } = chain.channels.channel(idOf(config));
    if (withdrawal === undefined && chain.isQuiet()) {
      this.#isWithdrawing = false;
      // The channel is used again.
      if (this.#isSold) this.#buyAgain();
      return;
    }
    const isOver =
      chain.head.timestamp >= (withdrawal?.at ?? Number.POSITIVE_INFINITY) + config.withdrawDelay;
    if (isOver && chain.isQuiet()) chain.send(undefined, chain.channels.finalizeWithdraw(config));
    this.#requests.later(LOOK_MS, () => this.#endWithdrawal(config));
  }

  #buyAgain(): void {
    this.#isSold = false;
    this.#orders = 2;
    this.#next();
  }
}

function pathOf(job: number): string {
  return `/x402/jobs/1/${job}`;
}

function postOf(path: string, body: string, header?: string) {
  return {
    ...{ method: "POST" as const, path, body },
    headers: header === undefined ? {} : { "payment-signature": header },
  };
}

function offerIn(answer: HttpResponse | undefined): PaymentRequirements | undefined {
  const required = answer?.headers?.["payment-required"];
  if (typeof required !== "string") return undefined;
  return decodePaymentRequiredHeader(required).accepts.find(({ scheme }) => scheme === SCHEME);
}

function toldIn(answer: HttpResponse): Told | undefined {
  const paid = answer.headers?.["payment-response"];
  const extra = typeof paid === "string" ? decodePaymentResponseHeader(paid).extra : offerIn(answer)?.extra;
  return (extra as { readonly channelState?: Told } | undefined)?.channelState;
}

function word(value: number): `0x${string}` {
  return `0x${value.toString(16).padStart(64, "0")}`;
}

function base64(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}
