import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take longest, in that order: one of them started last would keep a single worker busy at the end. */
const LONGEST = [
  "simulation/world",
  "e2e/runners.full",
  "e2e/solana-crash.full",
  "e2e/settler-crash.full",
  // They install the tools of other languages, or wait for registries.
  "interop/generated.full",
  "clients/rust.full",
  "interop/agents.full",
  "interop/request-prices.full",
  "interop/openapi",
  "release.full",
  "e2e/operator-page.full",
  "simulation/payments.full",
  "simulation/postgres.full",
  "simulation/disk.full",
  "e2e/refunds-crash.full",
  "e2e/attacks-store.full",
  "e2e/crash-postgres.full",
  "parts/postgres/differential.full",
  "e2e/api-crash.full",
  "e2e/operator-page",
  "e2e/storm.full",
  "e2e/refunds-solana-replicas.full",
  "e2e/memory.full",
  "parts/channels/channels-crash.full",
  "e2e/crash-matrix",
  "e2e/callbacks-crash.full",
  "parts/postgres/commit/outcomes.full",
  "e2e/shop",
  "e2e/facilitators.full",
  "e2e/channels-own-crash.full",
  "e2e/replicas",
  "e2e/power-loss.full",
  "e2e/money-metered-crash.full",
  "parts/solana/charge-after-crash.full",
  "store/sqlite/crash",
  "simulation/",
  "commands/serve",
  // Most of their time is waiting.
  "parts/channels/permit2-deposits",
  "parts/channels/withdrawal",
  "e2e/refunds",
  "e2e/money-facilitator",
  "e2e/streamed-answers",
  "parts/channels/lying-facilitator",
  "parts/channels/reorganisation",
  "parts/pricing-engine/pricing-web",
  "e2e/channels-own-settlement",
  "e2e/charge-after.test",
  "e2e/unstored-answers",
  "e2e/books-solana",
  "parts/solana/purchase-traps",
  "parts/run-each",
  "e2e/money-replay",
  "e2e/restricted-nonces",
  "delivery/dispatcher",
  "parts/permit2/authorization",
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
