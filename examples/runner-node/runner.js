import { run } from "jobgate/runner";

// The "shout" job: returns the body in capitals. Metered, each byte costs 1 % of the ceiling.
await run(async (job) => {
  job.charge({ basisPoints: Math.min(100 * job.body.length, 10_000) });
  return job.body.toString().toUpperCase();
});
