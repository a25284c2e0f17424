import type { JobCallOrigin } from "./job-call.ts";
import type { DecidedState } from "./payment.ts";

/** A change to a JobCall or its payment, made by this process. */
export interface GatewayEvent {
  /** Unix milliseconds. */
  readonly at: number;
  readonly callId: number;
  readonly what: WhatHappened;
}

export type WhatHappened =
  | {
      readonly kind: "accepted";
      readonly origin: JobCallOrigin;
      readonly jobId: bigint;
      readonly serviceId: bigint;
    }
  | {
      readonly kind: "delivered";
      readonly jobId: bigint;
      readonly attempt: number;
      /** Unix milliseconds; absent in a timeline when the delivery is over. */
      readonly leaseExpiresAt?: number;
      readonly subscriber: string;
    }
  | {
      readonly kind: "progressed";
      /** 0 to 100. */
      readonly percent: number;
      readonly text: string;
    }
  | {
      readonly kind: "acked";
      readonly resultBytes: number;
      /** HTTP status of the result; undefined if the runner named none. */
      readonly status: number | undefined;
    }
  | { readonly kind: "retried"; readonly reason: string }
  | {
      readonly kind: "deadLettered";
      readonly reason: string;
      /** Owner of the key that the dead letter holds up; undefined if it holds no key. */
      readonly holdsKeyOf?: string;
    }
  | { readonly kind: "dropped" }
  /** Money that a part moves changed its state. */
  | ({
      readonly kind: "partChanged";
      /** Name of the event in the operator's API. */
      readonly name: string;
      /** Name of the state there, in lower case. */
      readonly state: string;
      /** Reason for the state, with the operator's name if an operator decided. */
      readonly reason: string;
      /** Hash of the transfer, once it is known. */
      readonly transaction: string;
    } & PaidAmount)
  /** Occurs only in timelines. */
  | ({ readonly kind: "paymentBegun" } & PaidAmount)
  | ({
      readonly kind: "paymentDecided";
      readonly state: DecidedState;
      readonly reason: string;
    } & PaidAmount);

/** Amount of a token that a payer pays or gets back. */
export interface PaidAmount {
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  /** Base units, decimal. */
  readonly amount: string;
  readonly payer: string;
}

export type EventKind = WhatHappened["kind"];

type EventListener = (event: GatewayEvent) => void;

/** Passes events on to its subscribers at once. Keeps none. */
export class EventHub {
  /** Wrapped, so that the same function can subscribe twice. */
  readonly #subscriptions = new Set<{
    readonly listener: EventListener;
    readonly kinds: ReadonlySet<EventKind> | undefined;
  }>();

  /** Returns true if a subscriber receives one of these kinds. Otherwise the event need not be made. */
  watches(...kinds: readonly EventKind[]): boolean {
    for (const { kinds: watched } of this.#subscriptions)
      if (watched === undefined || kinds.some((kind) => watched.has(kind))) return true;
    return false;
  }

  emit(event: GatewayEvent): void {
    for (const { listener, kinds } of this.#subscriptions)
      if (kinds === undefined || kinds.has(event.what.kind)) listener(event);
  }

  /**
   * @param listener must be quick and must not throw, because it runs inside the work that it watches
   * @param kinds the kinds that it receives; default: all
   * @returns a function that ends the subscription
   */
  subscribe(listener: EventListener, kinds?: readonly EventKind[]): () => void {
    const subscription = { listener, kinds: kinds && new Set(kinds) };
    this.#subscriptions.add(subscription);
    return () => void this.#subscriptions.delete(subscription);
  }
}
