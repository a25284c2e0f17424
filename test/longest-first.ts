import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take longest, in that order: one of them started last would keep a single worker busy at the end. */
const LONGEST = [
  "e2e/crash-matrix-no-rpc.full",
  "e2e/crash-matrix.full",
  "e2e/crash-postgres.full",
  "e2e/model.full",
  "e2e/runners.full",
  "e2e/replicas",
  "e2e/operator-page",
  "e2e/crash",
  "e2e/money-facilitator",
  "e2e/paid-waiting",
  "commands/serve",
  "x402/settlement/reconciler",
  "e2e/money-chain",
  "commands/run-each",
  "e2e/quotes",
  "delivery/dispatcher",
  "store/sqlite/crash",
  "e2e/logs",
  "e2e/traces",
  "e2e/engine-prices",
  "e2e/money-replay",
  "e2e/paid-events",
  "pricing/",
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
