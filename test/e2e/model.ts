import fc from "fast-check";
import { Fail } from "../../src/runner/job.ts";
import { commands } from "./model-commands.ts";
import { runCommands } from "./model-run.ts";
import { type SetUp, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

/** Results and finished calls are forgotten after the least age, 8.64 s: between the runs, and during long ones. */
const RETENTION = `[store.retention]
results_days = 0.0001
calls_days = 0.0001
`;

/**
 * Lets random things happen to one jobgate, again and again for `durationMs`, and checks the promises about money
 * after each time. `JOBGATE_MODEL_SEED` repeats a run.
 */
export async function runModel(options: { setUp: SetUp; durationMs: number }): Promise<void> {
  const { setUp, durationMs } = options;
  const firstSeed = Number(process.env.JOBGATE_MODEL_SEED ?? Date.now() % 1_000_000_000);
  console.log(`model with ${setUp}: JOBGATE_MODEL_SEED=${firstSeed}`);
  const parts = await startPaidParts();
  // Refunds are promised only where the chain can be read.
  const account = setUp === "rpc_url" ? await refundAccount(parts) : undefined;
  const failing = new Set<string>();
  const gateway = await startPaidGateway({
    parts,
    setUp,
    asProcess: true,
    edit: (config) => (account?.edit(config) ?? config).replace("[store]", `${RETENTION}[store]`),
    handle(call) {
      if (failing.has(Buffer.from(call.body).toString())) throw new Fail("as the model says");
      return undefined;
    },
    facilitatorTimeoutSecs: 1,
    leaseSecs: 1,
  });
  const deadline = Date.now() + durationMs;
  let runs = 0;
  try {
    // A jobgate lives through all runs, so a run is not repeated in a smaller shape: its own shape is reported.
    do {
      const seed = firstSeed + runs++;
      const property = fc.asyncProperty(commands({ lies: setUp === "rpc_url" }), (sequence) =>
        runCommands({ parts, gateway, account, failing, setUp, commands: sequence, name: `run ${seed}` }),
      );
      await fc.assert(property, { seed, numRuns: 1, endOnFailure: true });
    } while (Date.now() < deadline);
  } finally {
    await gateway.stop();
    await parts.stop();
  }
}
