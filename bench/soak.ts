import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { accounts } from "../test/helpers/accounts.ts";
import { startAnvil } from "../test/helpers/anvil.ts";
import { requestOffer, signV2Payment } from "../test/helpers/clients.ts";
import { startFacilitator } from "../test/helpers/facilitator.ts";
import type { Jobgate } from "../test/helpers/jobgate-process.ts";
import { deployUsdc } from "../test/helpers/usdc.ts";
import { startTree } from "./gateway.ts";
import { LightRunner } from "./light-runner.ts";
import { agent, pay } from "./payments.ts";
import { post } from "./post.ts";
import { THIS_TREE } from "./trees.ts";

const PER_SECOND = { webhooks: 60, payments: 8, unpaid: 10 } as const;
const TICK_MS = 50;
const SAMPLE_MS = 10_000;
const SAMPLES_PER_MINUTE = 60_000 / SAMPLE_MS;
/** Time in which caches fill and V8 compiles. */
const WARM_UP_MINUTES = 10;
const BODY = Buffer.alloc(1_024, "x");
/** Keeps the chain of an hour in memory: a block a second, and the states of the last minutes. */
const ANVIL_ARGS = ["--block-time", "1", "--prune-history", "300"];
const MIB = 1024 * 1024;

/** Megabytes of one moment. */
interface Sample {
  readonly minute: number;
  readonly rss: number;
  readonly heap: number;
  readonly external: number;
  readonly database: number;
  readonly log: number;
}

/** Starts `work` a number of times a second, and catches up after a pause of the machine. */
class Pace {
  readonly #perSecond: number;
  readonly #work: () => Promise<void>;
  readonly #startedAt = performance.now();
  readonly #underWay = new Set<Promise<void>>();
  #started = 0;
  done = 0;
  failed = 0;

  constructor(perSecond: number, work: () => Promise<void>) {
    this.#perSecond = perSecond;
    this.#work = work;
  }

  tick(): void {
    const due = ((performance.now() - this.#startedAt) / 1000) * this.#perSecond;
    for (; this.#started < due; this.#started += 1) {
      const underWay = this.#run().finally(() => this.#underWay.delete(underWay));
      this.#underWay.add(underWay);
    }
  }

  /** Resolves once all that was started has ended. */
  async finish(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  async #run(): Promise<void> {
    try {
      await this.#work();
      this.done += 1;
    } catch (error) {
      this.failed += 1;
      console.error(String(error));
    }
  }
}

/** Loads the built gateway as a small seller's day does, and prints its memory each minute. */
async function soak(minutes: number): Promise<void> {
  const anvil = await startAnvil({ extraArgs: ANVIL_ARGS });
  const usdc = await deployUsdc({ anvil });
  await usdc.mint(accounts.payer.address, 1_000_000_000_000n);
  const facilitator = await startFacilitator({ anvil });
  const payments = {
    facilitatorUrl: facilitator.url,
    chainId: anvil.chainId,
    asset: usdc.address,
    payTo: accounts.payTo.address,
    tokenName: usdc.name,
    tokenVersion: usdc.version,
    rpcUrl: anvil.rpcUrl,
  };
  const { jobgate } = await startTree(THIS_TREE, { payments });
  const runner = new LightRunner(jobgate.runnerAddress);
  try {
    let acked = 0;
    let ackFailures = 0;
    await runner.subscribe(256, (call) => {
      // The end of the soak breaks off what is under way.
      runner.ack([call]).then(
        () => (acked += 1),
        () => (ackFailures += 1),
      );
    });
    const url = `${jobgate.x402Url}/x402/jobs/1/0`;
    let offer = await requestOffer(url);
    const paces = {
      webhooks: new Pace(PER_SECOND.webhooks, async () => {
        const status = await post(`${jobgate.webhooksUrl}/hooks/bench`, BODY);
        if (status !== 202) throw new Error(`a webhook was answered ${status}`);
      }),
      payments: new Pace(PER_SECOND.payments, async () => {
        const { payload } = await signV2Payment({ offer: offer.v2, account: accounts.payer });
        await pay({ url, method: "POST", status: 202 }, payload);
      }),
      unpaid: new Pace(PER_SECOND.unpaid, async () => {
        offer = await requestOffer(url);
      }),
    };
    const ticks = setInterval(() => {
      for (const pace of Object.values(paces)) pace.tick();
    }, TICK_MS);
    console.log("minute\tRSS\theap\texternal\tdatabase\tlog (MB)\twebhooks\tpayments\tunpaid\tacked\tfailed");
    const samples: Sample[] = [];
    while (samples.length < minutes * SAMPLES_PER_MINUTE) {
      await sleep(SAMPLE_MS);
      samples.push(await sampleOf(jobgate, (samples.length + 1) / SAMPLES_PER_MINUTE));
      if (samples.length % SAMPLES_PER_MINUTE !== 0) continue;
      const { webhooks, payments, unpaid } = paces;
      const failed = webhooks.failed + payments.failed + unpaid.failed + ackFailures;
      const counts = [webhooks.done, payments.done, unpaid.done, acked, failed];
      console.log([...meanOf(samples.slice(-SAMPLES_PER_MINUTE)), ...counts].join("\t"));
    }
    clearInterval(ticks);
    for (const pace of Object.values(paces)) await pace.finish();
    report(samples);
  } finally {
    runner.close();
    await jobgate.stop();
    await facilitator.stop();
    await anvil.stop();
    agent.destroy();
  }
}

async function sampleOf({ operatorUrl, folder }: Jobgate, minute: number): Promise<Sample> {
  const metrics = await (await fetch(`${operatorUrl}/metrics`)).text();
  const megabytes = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(metrics)?.[1]) / MIB;
  const size = (file: string) => (statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0) / MIB;
  return {
    minute,
    rss: megabytes("process_resident_memory_bytes"),
    heap: megabytes("nodejs_heap_size_used_bytes"),
    external: megabytes("nodejs_external_memory_bytes"),
    database: size("bench.db"),
    log: size("bench.db-wal"),
  };
}

function meanOf(samples: readonly Sample[]): string[] {
  const mean = (of: (sample: Sample) => number) =>
    (samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length).toFixed(1);
  const minute = String(Math.round(samples.at(-1)?.minute ?? 0));
  return [
    minute,
    ...(["rss", "heap", "external", "database", "log"] as const).map((key) => mean((sample) => sample[key])),
  ];
}

function report(samples: readonly Sample[]): void {
  const later = samples.filter(({ minute }) => minute > WARM_UP_MINUTES);
  if (later.length < 2) return;
  const slope = (key: "rss" | "heap") =>
    slopeOf(later.map((sample) => [sample.minute, sample[key]] as const));
  console.log(
    `After ${WARM_UP_MINUTES} minutes: RSS ${slope("rss").toFixed(3)} MB a minute, heap ${slope("heap").toFixed(3)} MB a minute`,
  );
}

/** Returns the slope of the line with the least squares. */
function slopeOf(points: readonly (readonly [x: number, y: number])[]): number {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length;
  const over = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return over / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

const { values } = parseArgs({ options: { minutes: { type: "string", default: "60" } } });
const minutes = Number(values.minutes);
if (!Number.isInteger(minutes) || minutes < 1) {
  console.error("Usage: npm run soak -- [--minutes N]");
  process.exit(2);
}
await soak(minutes);
