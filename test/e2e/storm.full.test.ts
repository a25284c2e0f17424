import { expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { STORM_MODES, Storm } from "./storm.ts";
import { ALL_KEPT, audit } from "./storm-audit.ts";

/** Payments in each mode. */
const PAYMENTS = Number(process.env.JOBGATE_STORM_PAYMENTS ?? howMany(50, 100));
const SEED = Number(process.env.JOBGATE_STORM_SEED ?? Date.now() % 1_000_000_000);
const MODES = STORM_MODES.filter((mode) => (process.env.JOBGATE_STORM_MODE ?? mode) === mode);

it.each(MODES)(
  `%s: ${PAYMENTS} payments amid kills, lying facilitators and nodes that disagree: each settled one has its one job`,
  {
    timeout: 900_000 + PAYMENTS * 500,
  },
  async (mode) => {
    console.log(
      `storm: JOBGATE_STORM_MODE=${mode} JOBGATE_STORM_SEED=${SEED} JOBGATE_STORM_PAYMENTS=${PAYMENTS}`,
    );
    const startedMs = performance.now();
    const secsSinceStart = () => Math.round((performance.now() - startedMs) / 1_000);
    const storm = await Storm.start({ seed: SEED, payments: PAYMENTS, mode });
    try {
      await storm.rage();
      const ragedSecs = secsSinceStart();
      await storm.calmDown();
      const { verdict, figures } = await audit(storm);
      const counts = Object.fromEntries([...storm.counts].sort());
      const latestEndMs = Math.round(storm.latestEndMs);
      const latestCalmMs = Math.round(storm.latestCalmMs);
      console.log(
        JSON.stringify(
          { mode, ...figures, ragedSecs, latestEndMs, latestCalmMs, secs: secsSinceStart(), counts },
          null,
          1,
        ),
      );
      expect(verdict).toEqual(ALL_KEPT);
      expect(storm.counts.get("kills")).toBeGreaterThan(0);
    } finally {
      await storm.stop();
    }
  },
);
