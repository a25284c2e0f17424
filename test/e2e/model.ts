import fc from "fast-check";
import { installPermit2 } from "../helpers/permit2.ts";
import { localSettler } from "./local-facilitator.ts";
import { commands } from "./model-commands.ts";
import { runCommands } from "./model-run.ts";
import { ModelRunner } from "./model-runner.ts";
import { sellMetered } from "./model-use.ts";
import { type PaidGateway, type SetUp, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

/** Results and finished calls are forgotten after the least age, 8.64 s: between the runs, and during long ones. */
const RETENTION = `[store.retention]
results_days = 0.0001
calls_days = 0.0001
`;
/** Time by which the runs of one jobgate may move the chain ahead of the clock: authorizations may not end too late. */
const MAX_AHEAD_SECS = 2_000;

/** `reorganises`: on a chain of its own, which loses blocks, a jobgate that sends all transactions itself. */
export interface ModelOptions {
  readonly setUp: SetUp;
  readonly reorganises?: boolean;
  readonly durationMs: number;
}

/**
 * Lets random things happen to one jobgate, again and again for `durationMs`, and checks the promises about money
 * after each time. `JOBGATE_MODEL_SEED` repeats a run.
 */
export async function runModel({ durationMs, ...options }: ModelOptions): Promise<void> {
  const deadline = Date.now() + durationMs;
  const firstSeed = Number(process.env.JOBGATE_MODEL_SEED ?? Date.now() % 1_000_000_000);
  console.log(`model with ${JSON.stringify(options)}: JOBGATE_MODEL_SEED=${firstSeed}`);
  let seed = firstSeed;
  do seed = await runUntil(deadline, seed, options);
  while (Date.now() < deadline);
}

/** Runs until the deadline, or until the chain's time is too far ahead. @returns the next seed */
async function runUntil(
  deadline: number,
  firstSeed: number,
  { setUp, reorganises = false }: Omit<ModelOptions, "durationMs">,
): Promise<number> {
  const readsChain = setUp === "rpc_url";
  const parts = await startPaidParts({ meteredSettler: readsChain, ...(reorganises && { anvilArgs: [] }) });
  await installPermit2(parts.anvil);
  // Refunds are promised, and jobs sold metered, only where the chain can be read.
  const account = readsChain ? await refundAccount(parts) : undefined;
  const settler = reorganises ? await localSettler(parts) : undefined;
  const runner = new ModelRunner();
  const gateway: PaidGateway = await startPaidGateway({
    rpcFaults: true,
    parts,
    setUp,
    asProcess: true,
    edit(config) {
      const lasting = config
        .replace("[store]", `${RETENTION}[store]`)
        .replace("[runner]\n", "[runner]\nmax_attempts = 3\n");
      const selling = account?.edit(sellMetered(lasting)) ?? lasting;
      return settler?.edit(selling) ?? selling;
    },
    handle: (call) => runner.handle(call, gateway.runner),
    facilitatorTimeoutSecs: 1,
    leaseSecs: 1,
    confirmations: reorganises ? 2 : 1,
  });
  const isDone = async () =>
    Date.now() >= deadline || (await parts.chainTimeSecs()) > Date.now() / 1000 + MAX_AHEAD_SECS;
  let seed = firstSeed;
  try {
    // A jobgate lives through all runs, so a run is not repeated in a smaller shape: its own shape is reported.
    do {
      const name = `run ${seed}`;
      const property = fc.asyncProperty(commands({ readsChain, reorganises }), (sequence) =>
        runCommands({
          ...{ parts, gateway, account, runner, setUp, name },
          commands: sequence,
          minesAlways: reorganises,
        }),
      );
      await fc.assert(property, { seed, numRuns: 1, endOnFailure: true });
      seed++;
    } while (!(await isDone()));
  } finally {
    await gateway.stop();
    await parts.stop();
  }
  return seed;
}
