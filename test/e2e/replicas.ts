import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accounts } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { freePort } from "../helpers/free-port.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import type { ProgramSource } from "../helpers/jobgate-program.ts";
import { type JobHandler, type Runner, startRunner } from "../helpers/runner.ts";
import type { PaidParts } from "./paid-parts.ts";

/** One of several jobgates. Its addresses stay the same over restarts. */
export interface Replica {
  readonly x402Url: string;
  readonly hookUrl: string;
  readonly operatorUrl: string;
  readonly runnerAddress: string;
  /** Kills it with SIGKILL, and starts it again. */
  crash(): Promise<void>;
  /** Stops its process with SIGSTOP while something is done. */
  freeze(deed: () => Promise<unknown>): Promise<void>;
  /** Sets its wall clock so far from the true time, also over restarts. Its monotonic clock goes on. */
  setClock(offsetMs: number): Promise<void>;
  stop(): Promise<void>;
}

/** Preloaded into a replica: shifts `Date` by what a file says, at the start and at each signal. */
const CLOCK = `
const { readFileSync } = require("node:fs");
const file = __dirname + "/clock-offset";
const TrueDate = Date;
let offsetMs = 0;
const read = () => {
  offsetMs = Number(readFileSync(file, "utf8"));
};
globalThis.Date = class Date extends TrueDate {
  constructor(...given) {
    if (given.length === 0) super(TrueDate.now() + offsetMs);
    else super(...given);
  }
  static now() {
    return TrueDate.now() + offsetMs;
  }
};
read();
process.on("SIGUSR2", read);
`;

export async function startReplica(
  parts: PaidParts,
  storeUrl: string,
  options: {
    readonly publicUrl?: string;
    readonly facilitatorUrl?: string;
    readonly priceWei?: string;
    /** Default 5. */
    readonly leaseSecs?: number;
    /** False behind a pooler. Default true. */
    readonly listen?: boolean;
    /** Default: these sources. */
    readonly from?: ProgramSource;
  } = {},
): Promise<Replica> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-replica-"));
  const [x402, webhooks, runner, operator] = (await Promise.all([1, 2, 3, 4].map(freePort))).map(
    (port) => `127.0.0.1:${port}`,
  ) as [string, string, string, string];
  const { publicUrl = `http://${x402}`, facilitatorUrl = parts.facilitator.url } = options;
  const { priceWei = "1000000000000000", leaseSecs = 5, listen = true } = options;
  const config = configOf(parts, {
    storeUrl,
    publicUrl,
    facilitatorUrl,
    priceWei,
    leaseSecs,
    listen,
    x402,
    webhooks,
    runner,
    operator,
  });
  const [clock, clockOffset] = [join(folder, "clock.cjs"), join(folder, "clock-offset")];
  await Promise.all([writeFile(clock, CLOCK), writeFile(clockOffset, "0")]);
  const env = { NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ""} --require ${clock}` };
  const start = () =>
    startJobgate({ config, folder, env, ...(options.from !== undefined && { from: options.from }) });
  let jobgate: Jobgate = await start();
  return {
    x402Url: `http://${x402}/x402/jobs/1/0`,
    hookUrl: `http://${webhooks}/hooks/load`,
    operatorUrl: `http://${operator}`,
    runnerAddress: runner,
    async crash() {
      jobgate.kill("SIGKILL");
      await jobgate.exited;
      jobgate = await startAgain(start);
    },
    async freeze(deed) {
      jobgate.kill("SIGSTOP");
      await deed().finally(() => jobgate.kill("SIGCONT"));
    },
    async setClock(offsetMs) {
      await writeFile(clockOffset, String(offsetMs));
      jobgate.kill("SIGUSR2");
    },
    async stop() {
      await jobgate.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Restarts it like a supervisor: Postgres may be down at the same time. */
function startAgain(start: () => Promise<Jobgate>): Promise<Jobgate> {
  return eventually(start);
}

/** Pause of a runner that found no replica. */
const RECONNECT_MS = 50;

/** A runner that goes to the next replica when its own is gone. */
export interface RoamingRunner {
  /** Drops all work in progress and subscribes again. */
  crash(): void;
  stop(): Promise<void>;
}

export function startRoamingRunner(
  replicas: readonly Replica[],
  first: number,
  handle: JobHandler,
): RoamingRunner {
  let stopped = false;
  let current: Runner | undefined;
  const roaming = (async () => {
    for (let next = first; !stopped; next++) {
      const { runnerAddress: address } = replicas[next % replicas.length] as Replica;
      try {
        current = await startRunner({
          address,
          subscriber: `runner-${first}`,
          handle,
        });
        await current.ended;
      } catch {
        await sleep(RECONNECT_MS);
      }
    }
  })();
  return {
    crash: () => current?.kill(),
    async stop() {
      stopped = true;
      current?.kill();
      await roaming;
    },
  };
}

interface Terms {
  readonly storeUrl: string;
  readonly publicUrl: string;
  readonly facilitatorUrl: string;
  readonly priceWei: string;
  readonly leaseSecs: number;
  readonly listen: boolean;
  readonly x402: string;
  readonly webhooks: string;
  readonly runner: string;
  readonly operator: string;
}

function configOf(parts: PaidParts, terms: Terms): string {
  const { usdc, anvil } = parts;
  return `
service_id = 1
[store]
url = "${terms.storeUrl}"
${terms.listen ? "" : "listen = false"}
max_pending = 50000
[runner]
bind_address = "${terms.runner}"
lease_secs = ${terms.leaseSecs}
max_attempts = 1000
retry_base_secs = 0.05
retry_max_secs = 1
[operator]
bind_address = "${terms.operator}"
[webhooks]
bind_address = "${terms.webhooks}"
[[webhooks.endpoints]]
path = "/hooks/load"
job_id = 30
[x402]
bind_address = "${terms.x402}"
public_url = "${terms.publicUrl}"
facilitator_url = "${terms.facilitatorUrl}"
facilitator_timeout_secs = 10
default_invocation_mode = "public_paid"
[[x402.accepted_tokens]]
network = "eip155:${anvil.chainId}"
asset = "${usdc.address}"
symbol = "USDC"
decimals = ${usdc.decimals}
pay_to = "${accounts.payTo.address}"
rate_per_native_unit = "3200.00"
markup_bps = 200
transfer_method = "eip3009"
eip3009_name = "${usdc.name}"
eip3009_version = "${usdc.version}"
rpc_url = "${anvil.rpcUrl}"
[job_pricing.1]
0 = "${terms.priceWei}"
`;
}
