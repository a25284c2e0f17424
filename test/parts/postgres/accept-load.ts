import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { GatewayError, UnknownOutcomeError } from "../../../src/core/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { claimCalls, webhookCall } from "../../store/store-fixtures.ts";

/** Pause of a load whose accept was refused. */
const AFTER_REFUSAL_MS = 5;

/** Accepts that continue despite failures, each with its own body. */
export interface AcceptLoad {
  readonly accepted: ReadonlySet<string>;
  readonly refused: ReadonlySet<string>;
  readonly unknown: ReadonlySet<string>;
  /** Takes no more, and resolves once all are decided. */
  end(): Promise<void>;
}

export function startAcceptLoad(store: Store, inFlight = 20): AcceptLoad {
  const outcomes = { accepted: new Set<string>(), refused: new Set<string>(), unknown: new Set<string>() };
  let isOver = false;
  let sent = 0;

  async function acceptOne(): Promise<void> {
    sent += 1;
    const body = `call ${sent}`;
    try {
      await store.accept(webhookCall({ body: Buffer.from(body) }));
      outcomes.accepted.add(body);
    } catch (error) {
      if (error instanceof UnknownOutcomeError) outcomes.unknown.add(body);
      else if (error instanceof GatewayError && error.code === "store_unavailable")
        outcomes.refused.add(body);
      else throw error;
      // A refusal comes at once: others are to be under way when the next thing happens.
      await sleep(AFTER_REFUSAL_MS);
    }
  }

  const workers = Array.from({ length: inFlight }, async () => {
    while (!isOver) await acceptOne();
  });
  return {
    ...outcomes,
    async end() {
      isOver = true;
      await Promise.all(workers);
    },
  };
}

/** Checks that each accepted call is stored once, no refused one is, and no outcome is unknown. */
export async function expectTruthful(store: Store, load: AcceptLoad): Promise<void> {
  const kept: string[] = [];
  for (;;) {
    const claimed = await claimCalls(store, { limit: 5_000 });
    if (claimed.length === 0) break;
    kept.push(...claimed.map(({ encoded }) => Buffer.from(encoded).toString()));
  }
  expect(new Set(kept).size).toBe(kept.length);
  const found = new Set(kept);
  expect([...load.accepted].filter((body) => !found.has(body))).toEqual([]);
  expect([...load.refused].filter((body) => found.has(body))).toEqual([]);
  expect(load.unknown.size).toBe(0);
  expect(found.size).toBe(load.accepted.size);
}
