import type { PaymentKey } from "../../../src/core/payment.ts";
import { START_MS } from "../store-fixtures.ts";
import { Choices } from "./choices.ts";
import { callRef, movedMs, type Place, type Ref, type Step } from "./steps.ts";

/** Free texts of runners, operators and clients. Some end in the middle of a character where they are cut. */
const TEXTS = [
  ...["no good", "late", "no good", "", "lease expired", "stream ended", 'a "quote" \\ and ünïcode'],
  ...["took 12 ms", "took 1.5 ms", `${"9".repeat(300)}Z`],
  ...[`${"x".repeat(199)}😀 and more`, `${"y".repeat(499)}😀 and more`],
];

interface BegunPayment {
  readonly key: PaymentKey;
  readonly call: Place;
  readonly number: number;
}

interface SignedReference {
  readonly network: string;
  readonly reference: string;
  readonly nonce: number;
  readonly hash: string;
}

/** State that a run has made so far. The next operation is chosen from it. */
export class World {
  readonly choices: Choices;
  /** Unix milliseconds. */
  now = START_MS;
  readonly calls: Place[] = [];
  readonly leases: Extract<Ref, { ref: "lease" }>[] = [];
  readonly payments: BegunPayment[] = [];
  readonly dead: Place[] = [];
  readonly signed: SignedReference[] = [];
  /** Last nonces by network. */
  readonly nonces = new Map<string, number>();
  #number = 0;

  constructor(seed: number) {
    this.choices = new Choices(seed);
  }

  /** Returns a number that no operation has had. */
  nextNumber(): number {
    this.#number += 1;
    return this.#number;
  }

  text(): string {
    return this.choices.one(TEXTS);
  }

  /** Text that stores keep inside JSON: there, SQLite keeps U+0000 and half a surrogate pair. */
  note(): string {
    return this.choices.percent(20)
      ? this.choices.one(["a NUL \0 inside", "half a pair \ud83d"])
      : this.text();
  }

  /** Reference of a JobCall: mostly one that there is, seldom one that there is not. */
  call(places: readonly Place[] = this.calls): Ref {
    const place = this.choices.percent(97) ? this.choices.recent(places) : undefined;
    return callRef(place ?? "0.0");
  }

  learn(step: Step, outcomes: readonly unknown[]): void {
    this.now += movedMs(step);
    for (const [index, { place, input }] of step.asked.entries())
      this.#learn(step.name, place, input, (outcomes[index] ?? {}) as Learned);
  }

  #learn(name: string, place: Place, input: readonly unknown[], outcome: Learned): void {
    if (outcome.kind === "accepted" || outcome.kind === "begun") this.calls.push(place);
    if (outcome.kind === "begun") {
      const { key, number } = input[0] as { key: PaymentKey; number: number };
      this.payments.push({ key, call: place, number });
    }
    if (name === "claim")
      for (const { callId } of outcome.calls ?? [])
        this.leases.push({ ref: "lease", claim: place, call: placeOf(callId) });
    const deadLettered =
      name === "expireLeases" ? (outcome as unknown as DeadLettered[]) : (outcome.deadLettered ?? []);
    for (const { callId } of [deadLettered].flat()) this.dead.push(placeOf(callId));
    if (name === "signTransactions" && (outcome as unknown) === "signed") this.#noteSigned(input);
  }

  #noteSigned([network, , signed]: readonly unknown[]): void {
    for (const { reference, nonce, hash } of signed as SignedReference[]) {
      this.signed.push({ network: String(network), reference, nonce, hash });
      this.nonces.set(String(network), Math.max(nonce, this.nonces.get(String(network)) ?? 0));
    }
  }
}

interface DeadLettered {
  readonly callId: string;
}

/** Outcome of an operation, with JobCalls by their places. */
interface Learned {
  readonly kind?: string;
  readonly calls?: readonly { readonly callId: string }[];
  readonly deadLettered?: DeadLettered | readonly DeadLettered[];
}

/** Text of a JobCall in outcomes. */
export const nameOf = (place: Place): string => `#${place}`;
const placeOf = (name: string) => name.slice(1) as Place;
