import type { JobCallOrigin } from "./job-call.ts";
import type { PaymentState } from "./payment.ts";

/** Something that happened to a JobCall or its payment, in this process. */
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

export type EventListener = (event: GatewayEvent) => void;

/** Passes events on to whoever watches, at once. Keeps none. */
export interface EventHub {
  /** Whether anyone watches: events that nobody sees need not be made. */
  readonly watched: boolean;
  emit(event: GatewayEvent): void;
  /**
   * @param listener must be quick and not throw: it runs inside the work that it watches
   * @returns a function that ends the subscription
   */
  subscribe(listener: EventListener): () => void;
}

export function createEventHub(): EventHub {
  const listeners = new Set<EventListener>();
  return {
    get watched() {
      return listeners.size > 0;
    },
    emit(event) {
      for (const listener of listeners) listener(event);
    },
    subscribe(listener) {
      // A wrapper of its own: the same function may subscribe twice.
      const entry: EventListener = (event) => listener(event);
      listeners.add(entry);
      return () => void listeners.delete(entry);
    },
  };
}
