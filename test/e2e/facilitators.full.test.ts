import { expect, it } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { Storm } from "./storm.ts";
import { ALL_KEPT, audit } from "./storm-audit.ts";

const PAYMENTS = Number(process.env.JOBGATE_FACILITATORS_PAYMENTS ?? howMany(60, 150));
const SEED = Number(process.env.JOBGATE_STORM_SEED ?? Date.now() % 1_000_000_000);

it(`${PAYMENTS} payments over two remote facilitators and jobgate itself, amid kills, lies and stalls: none is lost or doubled`, {
  timeout: 600_000 + PAYMENTS * 500,
}, async () => {
  console.log(`facilitators: JOBGATE_STORM_SEED=${SEED} JOBGATE_FACILITATORS_PAYMENTS=${PAYMENTS}`);
  const storm = await Storm.start({ seed: SEED, payments: PAYMENTS, facilitators: 3 });
  try {
    await storm.rage();
    await storm.calmDown();
    const { verdict, figures } = await audit(storm);
    console.log(
      JSON.stringify({ ...figures, counts: Object.fromEntries([...storm.counts].sort()) }, null, 1),
    );
    expect(verdict).toEqual(ALL_KEPT);
  } finally {
    await storm.stop();
  }
});
