import type { Logger } from "pino";
import type { BackgroundService } from "../background-service.ts";
import type { Clock } from "../clock.ts";
import type { PaymentRecord } from "../payment.ts";
import type { PaymentJournal } from "../store/store.ts";
import type { PaymentsInHand } from "./payments-in-hand.ts";
import type { Settlement } from "./settlement.ts";

export interface ReconcilerOptions {
  readonly journal: PaymentJournal;
  readonly settlement: Settlement;
  /** Payments that a request is working on: the reconciler keeps out of their way. */
  readonly inHand: PaymentsInHand;
  readonly clock: Clock;
  readonly logger: Logger;
}

const ROUND_EVERY_MS = 1_000;
/** What the operator is to look at can still decide itself: a chain's node catches up, an RPC is configured. */
const UNRESOLVED_EVERY_MS = 60_000;
const PAGE = 200;
/** Most payments looked at in one round, and at once. */
const MAX_PER_ROUND = 2_000;
const CONCURRENCY = 8;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 30_000;

/**
 * Decides what requests had to leave undecided: payments whose settlement nobody saw to its end, because the
 * facilitator, the chain or jobgate itself went away. Runs beside the serving and never blocks it.
 */
export class Reconciler implements BackgroundService {
  readonly #options: ReconcilerOptions;
  /** When to look next at each undecided payment, by fingerprint. */
  readonly #backoff = new Map<string, { nextAt: number; delayMs: number }>();
  #lookAtUnresolvedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#round;
  }

  #run(): void {
    this.#round = this.#reconcile()
      .catch((error: unknown) =>
        this.#options.logger.error({ err: error }, "reconciling failed: will be tried again"),
      )
      .finally(() => {
        if (!this.#stopped) this.#timer = setTimeout(() => this.#run(), ROUND_EVERY_MS);
      });
  }

  async #reconcile(): Promise<void> {
    const undecided = await this.#list("intent");
    if (this.#options.clock() >= this.#lookAtUnresolvedAt) {
      undecided.push(...(await this.#list("unresolved")));
      this.#lookAtUnresolvedAt = this.#options.clock() + UNRESOLVED_EVERY_MS;
    }
    const known = new Set(undecided.map(({ fingerprint }) => fingerprint));
    for (const fingerprint of this.#backoff.keys())
      if (!known.has(fingerprint)) this.#backoff.delete(fingerprint);

    const due = undecided.filter((record) => this.#isDue(record));
    const workers = Array.from({ length: CONCURRENCY }, async () => {
      for (let record = due.shift(); record !== undefined && !this.#stopped; record = due.shift()) {
        await this.#recheck(record);
      }
    });
    await Promise.all(workers);
  }

  async #list(state: PaymentRecord["state"]): Promise<PaymentRecord[]> {
    const found: PaymentRecord[] = [];
    for (let before: number | undefined; found.length < MAX_PER_ROUND; before = found.at(-1)?.callId) {
      const page = await this.#options.journal.listPayments({
        state,
        limit: PAGE,
        ...(before === undefined ? {} : { before }),
      });
      found.push(...page);
      if (page.length < PAGE) break;
    }
    return found;
  }

  #isDue({ fingerprint }: PaymentRecord): boolean {
    const { inHand, clock } = this.#options;
    return !inHand.has(fingerprint) && clock() >= (this.#backoff.get(fingerprint)?.nextAt ?? 0);
  }

  async #recheck(record: PaymentRecord): Promise<void> {
    const { journal, settlement, clock, logger } = this.#options;
    const { fingerprint, key, callId } = record;
    try {
      // Requests may have decided it since it was listed; only what the journal says now is to be acted on.
      const current = this.#isDue(record) ? await journal.findPayment(key) : undefined;
      if (current?.state !== "intent" && current?.state !== "unresolved") return;
      const { kind } = await settlement.recheck(current);
      if (kind !== "undecided") logger.info({ payment: key, callId }, `undecided payment ${kind}`);
    } catch (error) {
      logger.warn({ err: error, payment: key }, "could not look at an undecided payment");
    }
    const delayMs = Math.min(
      (this.#backoff.get(fingerprint)?.delayMs ?? FIRST_DELAY_MS / 2) * 2,
      MAX_DELAY_MS,
    );
    this.#backoff.set(fingerprint, { delayMs, nextAt: clock() + delayMs });
  }
}
