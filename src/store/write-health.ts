import type { Logger } from "pino";

const PROBE_INTERVAL_MS = 1000;

/** Whether the store can write, and the way back once it could not. */
export interface WriteHealth {
  /** Why it cannot write; undefined while it can. */
  readonly reason: string | undefined;
  /** A write failed: probes until one succeeds. */
  failed(reason: string): void;
  /** It will never write again. */
  died(reason: string): void;
  stop(): void;
}

/**
 * Only a probe shows that writing works again, since other operations can succeed without a write. Probing is
 * at a bounded rate, so that a store without traffic recovers as well and a broken one is not hammered.
 */
export function createWriteHealth(options: {
  readonly probe: () => Promise<unknown>;
  readonly logger: Logger | undefined;
}): WriteHealth {
  const { probe, logger } = options;
  let reason: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let ended = false;

  function scheduleProbe(): void {
    if (ended || timer !== undefined) return;
    timer = setTimeout(() => {
      probe().then(recovered, () => {
        timer = undefined;
        scheduleProbe();
      });
    }, PROBE_INTERVAL_MS);
  }

  function recovered(): void {
    timer = undefined;
    if (ended) return;
    reason = undefined;
    logger?.info("the store can write again");
  }

  function end(): void {
    ended = true;
    clearTimeout(timer);
  }

  return {
    get reason() {
      return reason;
    },
    failed(why) {
      if (ended) return;
      if (reason === undefined) logger?.error({ reason: why }, "the store cannot write");
      reason = why;
      scheduleProbe();
    },
    died(why) {
      end();
      reason = why;
      logger?.fatal({ reason: why }, "the store is gone: restart the gateway");
    },
    stop: end,
  };
}
