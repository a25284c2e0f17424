import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take longest, in that order: one of them started last would keep a single worker busy at the end. */
const LONGEST = [
  "e2e/runners.full",
  "simulation/world",
  "e2e/settler-crash.full",
  "e2e/model.full",
  "e2e/crash-matrix",
  // They install the tools of other languages, or wait for registries.
  "interop/generated.full",
  "interop/request-prices.full",
  "interop/openapi",
  "interop/agents.full",
  "simulation/disk.full",
  "parts/postgres/differential.full",
  "e2e/charge-after-ways.full",
  "e2e/refunds-crash.full",
  "e2e/replicas",
  "parts/postgres/commit/outcomes.full",
  "e2e/lost-responses.full",
  "e2e/crash-postgres.full",
  "e2e/operator-page",
  "parts/postgres/connection/heartbeat.full",
  "e2e/callbacks-crash.full",
  "parts/postgres/delivery.full",
  "e2e/power-loss.full",
  "e2e/served-facilitator.full",
  "e2e/undecided.full",
  "e2e/quote-client.full",
  "e2e/memory.full",
  "simulation/",
  "commands/serve",
  "parts/run-each",
  "e2e/model",
  "e2e/money-replay",
  "e2e/restricted-nonces",
  "e2e/money-facilitator",
  "e2e/quotes",
  "e2e/engine-prices",
  "e2e/refunds.test",
  "e2e/logs",
  "delivery/dispatcher",
  "e2e/traces",
  "e2e/money-chain",
  "parts/permit2/authorization",
  "e2e/crash",
  "store/sqlite/sqlite-store",
  "store/sqlite/crash",
  "delivery/",
  "parts/pricing-engine/",
  "e2e/",
];

/** Runs the longest files first, also where no run before has measured them. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = LONGEST.findIndex((name) => moduleId.includes(`/test/${name}`));
      return found === -1 ? LONGEST.length : found;
    };
    return (await super.sort(files)).sort((left, right) => rank(left) - rank(right));
  }
}
