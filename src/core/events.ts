import type { JobCallOrigin } from "./job-call.ts";
import type { PaymentState } from "./payment.ts";

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
      /** Unix milliseconds. */
      readonly leaseExpiresAt: number;
      readonly subscriber: string;
    }
  | {
      readonly kind: "progressed";
      /** 0 to 100. */
      readonly percent: number;
      readonly text: string;
    }
  | { readonly kind: "acked"; readonly resultBytes: number }
  | { readonly kind: "retried"; readonly reason: string }
  | { readonly kind: "deadLettered"; readonly reason: string }
  | { readonly kind: "dropped" }
  | {
      readonly kind: "paymentDecided";
      readonly state: Exclude<PaymentState, "intent">;
      readonly network: string;
      readonly asset: string;
      readonly symbol: string;
      /** Token units, decimal. */
      readonly amount: string;
      readonly payer: string;
      readonly reason: string;
    };

export type EventKind = WhatHappened["kind"];

export type EventListener = (event: GatewayEvent) => void;

/** Passes events on to its subscribers at once. Keeps none. */
export interface EventHub {
  /** Returns true if a subscriber receives one of these kinds. Otherwise the event need not be made. */
  watches(...kinds: readonly EventKind[]): boolean;
  emit(event: GatewayEvent): void;
  /**
   * @param listener must be quick and not throw: it runs inside the work that it watches
   * @param kinds the kinds that it receives; default: all
   * @returns a function that ends the subscription
   */
  subscribe(listener: EventListener, kinds?: readonly EventKind[]): () => void;
}

export function createEventHub(): EventHub {
  /** Wrapped, so that the same function can subscribe twice. */
  const subscriptions = new Set<{
    readonly listener: EventListener;
    readonly kinds: ReadonlySet<EventKind> | undefined;
  }>();
  return {
    watches(...kinds) {
      for (const { kinds: watched } of subscriptions)
        if (watched === undefined || kinds.some((kind) => watched.has(kind))) return true;
      return false;
    },
    emit(event) {
      for (const { listener, kinds } of subscriptions)
        if (kinds === undefined || kinds.has(event.what.kind)) listener(event);
    },
    subscribe(listener, kinds) {
      const subscription = { listener, kinds: kinds && new Set(kinds) };
      subscriptions.add(subscription);
      return () => void subscriptions.delete(subscription);
    },
  };
}
