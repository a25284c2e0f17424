import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { resetAssetContractCache } from "@x402/evm";
import type { X402Config } from "../../../src/config/config.ts";
import { leastChargeOf } from "../../../src/parts/metered/config.ts";
import { openDatabase } from "../../../src/store/sqlite/open-database.ts";
import type { Store } from "../../../src/store/store.ts";
import { CALLBACKS } from "./callback-hosts.ts";
import { Callers } from "./callers.ts";
import { Chain } from "./chain.ts";
import { chainNode } from "./chain-node.ts";
import { Client, plainOrder } from "./client.ts";
import { WrongClocks } from "./clocks.ts";
import { DISK, Disk } from "./disk.ts";
import { facilitator } from "./facilitator.ts";
import { IdentifiedClients } from "./identified.ts";
import { Laws } from "./laws.ts";
import { LongWork } from "./long-work.ts";
import { MORE_PROTOCOLS } from "./more-protocols.ts";
import { useDisk } from "./native-sqlite.ts";
import { Network, useNetwork } from "./network.ts";
import { Operator } from "./operator.ts";
import { OrderedWebhooks } from "./ordered-webhooks.ts";
import { PaidAfter } from "./paid-after.ts";
import type { Customer, Part, Shop } from "./part.ts";
import { PaymentChannels } from "./payment-channels.ts";
import { usePeers } from "./peers.ts";
import { SimulatedPostgres } from "./postgres.ts";
import { checkDisk } from "./power-loss.ts";
import { PricedRequests } from "./priced-requests.ts";
import { PUSH } from "./push-endpoint.ts";
import { QuotedJob } from "./quotes.ts";
import { Replica } from "./replica.ts";
import { Runner } from "./runner.ts";
import { Senders } from "./sender.ts";
import { REMOTE, settledBy, settlingOf } from "./settling.ts";
import { SharedDatabase } from "./shared-store.ts";
import { BrokenLaw, drained, Simulation, TROUBLE_MS, use } from "./simulation.ts";
import { SolanaPayments } from "./solana-payments.ts";
import { SoldApi } from "./sold-api.ts";
import { TrustingClients } from "./trusting.ts";

const NETWORK = "eip155:84532";
const ASSET = "0x036cbd53842c5426634e7929541ec2318f3dcf7e";
/** Time within which everything must be decided once nothing goes wrong any more. */
const PEACE_MS = 1_800_000;
/** Time by which delays of callbacks end later that a gateway found under a wrong clock when it started. */
const LARGEST_ERROR_MS = 7_200_000;
const MEAN_CRASH_MS = 20_000;
const MAX_STALL_MS = 20_000;
const AUDIT_MS = 5_000;
/** Clients of parts have numbers from here on. */
const MOST_CLIENTS = 1_000;
/** Time for which all stays quiet: blocks confirm what was mined last, and what was left to the operator may go on. */
const LAST_BLOCKS_MS = 10_000;

export interface Outcome {
  readonly seed: number;
  readonly hash: string;
  /** Payments that clients signed. */
  readonly payments: number;
  /** Payments that are left to the operator once everything is quiet; 0 if a law was broken before. */
  readonly undecided: number;
  /** Those who took part, and the faults that happened. */
  readonly faults: readonly string[];
  readonly trace: readonly string[];
  /** The law that does not hold; absent if all held. */
  readonly broken?: string;
}

let databases = 0;
const DATABASE_ON_DISK = `${DISK}/jobgate.db`;

export interface RunOptions {
  /** Databases are on a simulated disk. */
  readonly hasDisk?: boolean;
  /** The store is a simulated Postgres, with one to three gateways. */
  readonly hasPostgres?: boolean;
  /** Probability that a sync of the disk fails. Default: what happens to disks, good and bad. */
  readonly syncFailure?: number | undefined;
  /** Parts of the world, in place of those that its seed draws. */
  readonly parts?: readonly PartName[] | undefined;
  /** Times as many clients of what every world sells as the seed draws: a payment of many costs less time. Default: 1. */
  readonly crowd?: number;
  /** Faults that are left out. */
  readonly without?: ReadonlySet<string>;
}

/** Runs the world of a seed. */
export async function runSeed(
  seed: number,
  folder: string,
  { hasDisk = false, hasPostgres = false, syncFailure, parts, crowd = 1, without }: RunOptions = {},
): Promise<Outcome> {
  const simulation = new Simulation(seed, without);
  use(simulation);
  // The SDK remembers contracts for as long as a process lives.
  resetAssetContractCache();
  const empty = join(folder, "empty.db");
  const path = hasDisk ? DATABASE_ON_DISK : join(folder, `${databases++}.db`);
  if (!hasDisk) copyFileSync(empty, path);
  const files = new Map([[DATABASE_ON_DISK, readFileSync(empty)]]);
  const disk = hasDisk
    ? new Disk({ simulation, files, syncFailure, onDeath: () => world.died() })
    : undefined;
  useDisk(disk);
  const world = new World(simulation, { path, disk, folder, hasPostgres, parts, crowd });
  let broken: string | undefined;
  let undecided = 0;
  try {
    await world.run();
    undecided = world.laws.undecided();
  } catch (error) {
    if (!(error instanceof BrokenLaw)) throw error;
    broken = error.message;
  } finally {
    world.end();
    // What its end rejects goes on in this world, not in the next.
    await drained();
    use(undefined);
    useDisk(undefined);
    useNetwork(undefined);
    for (const tail of ["", "-wal", "-shm"]) rmSync(path + tail, { force: true });
  }
  const { hash, faults, trace } = simulation;
  const payments = world.laws.payments.length;
  return { seed, hash, payments, undecided, faults, trace, ...(broken === undefined ? {} : { broken }) };
}

/** A disk in memory: nothing of a run has to last. */
const MEMORY = "/dev/shm";

/** Makes a folder for databases, with an empty one. */
export function prepareFolder(): string {
  const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), "jobgate-simulation-"));
  const database = openDatabase(join(folder, "empty.db"), { isNew: true });
  database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").all([]);
  database.close();
  return folder;
}

class World {
  readonly #simulation: Simulation;
  readonly #chain: Chain;
  readonly #replicas: readonly Replica[];
  readonly #database: SharedDatabase | undefined;
  readonly #postgres: SimulatedPostgres | undefined;
  readonly #disk: Disk | undefined;
  readonly #folder: string;
  readonly #customers: readonly Customer[];
  readonly #parts: readonly Part[];
  readonly laws: Laws;

  constructor(
    simulation: Simulation,
    {
      path,
      disk,
      folder,
      hasPostgres,
      parts: chosen,
      crowd,
    }: {
      path: string;
      disk: Disk | undefined;
      folder: string;
      hasPostgres: boolean;
      parts: readonly PartName[] | undefined;
      crowd: number;
    },
  ) {
    this.#simulation = simulation;
    this.#disk = disk;
    this.#folder = folder;
    const confirmations = simulation.pick("confirmations", [1, 2, 3]);
    const chain = new Chain(simulation, confirmations - 1);
    this.#chain = chain;
    const network = new Network(simulation);
    useNetwork(network);
    network.add("node", chainNode(simulation, chain, { chainId: 84532, asset: ASSET }), 0.005);
    for (const name of REMOTE) {
      const faultRate = simulation.pick(`faults of ${name}`, [0, 0.05, 0.3]);
      const lies = simulation.random(`lies of ${name}`) < 0.5;
      const character = { faultRate, lies };
      network.add(
        name,
        facilitator(simulation, chain, {
          name,
          network: NETWORK,
          address: addressOf(name),
          character,
          laws: () => this.laws,
        }),
        0.01,
      );
    }
    const parts = partsOf({ simulation, chain }, disk === undefined ? chosen : []);
    this.#parts = parts;
    for (const { host, server, lossRate } of parts.flatMap(({ servers = [] }) => servers))
      network.add(host, server, lossRate);
    const settling = settlingOf(simulation, chain.accounts, { network: NETWORK, rpcUrl: "http://node" });
    const { refunds } = settling;
    const plain: Shop = { x402: settledBy(configOf(confirmations), settling), ...(refunds && { refunds }) };
    const shop = parts.reduce((sold, part) => part.configure?.(sold) ?? sold, plain);
    const isShared = simulation.random("the store is shared") < 0.5 && disk === undefined && !hasPostgres;
    this.#database = isShared ? new SharedDatabase(simulation, path) : undefined;
    this.#postgres = hasPostgres ? new SimulatedPostgres(simulation, path) : undefined;
    const stores = { path, database: this.#database, postgres: this.#postgres };
    const replica = (name: string) => new Replica(simulation, { name, shop, ...stores });
    const count = hasPostgres ? simulation.pick("gateways", [1, 2, 3]) : isShared ? 2 : 1;
    const names = ["gateway a", "gateway b", "gateway c"].slice(0, count);
    this.#replicas = (count === 1 ? ["gateway"] : names).map(replica);
    this.laws = new Laws(simulation, { chain, confirmations, path });
    const surroundings = { simulation, replicas: this.#replicas, laws: this.laws, shop };
    usePeers(parts.flatMap((part) => part.peers?.(surroundings) ?? []));
    if (chain.accounts.addresses.length > 0) new Operator(simulation, this.#replicas, chain.accounts).start();
    const clientCount = Math.min(MOST_CLIENTS, clientsIn(simulation) * crowd);
    const clients = Array.from({ length: clientCount }, (_, number) => plainOrder(simulation, number, shop));
    const customers: Customer[] = [
      ...clients.map((order) => new Client(surroundings, order)),
      ...parts.flatMap((part) => part.customers?.(surroundings) ?? []),
    ];
    this.#customers = customers.filter((customer) => {
      const comesAt = simulation.random(`${customer.name} comes`) * TROUBLE_MS;
      const comes = simulation.takesPart(customer.name);
      if (comes) simulation.at(comesAt, simulation.world, () => customer.start());
      return comes;
    });
    for (const [i, name] of ["runner a", "runner b"].entries()) {
      const [first] = this.#replicas as [Replica];
      new Runner({ ...surroundings, name, replica: this.#replicas[i] ?? first }).start();
    }
  }

  async run(): Promise<void> {
    const run = this.#simulation;
    for (const replica of this.#replicas) {
      replica.start();
      this.#crashes(replica);
      this.#audits(replica);
    }
    await run.runUntil(() => this.#checked(run.now >= TROUBLE_MS), TROUBLE_MS);
    run.isHealed = true;
    run.healedAtMs = run.wallMs;
    run.say("everything works from now on");
    let nextLook = 0;
    let quietSince: number | undefined;
    const isOver = () => {
      if (run.now < nextLook) return false;
      nextLook = run.now + 1_000;
      quietSince = this.#isQuiet() ? (quietSince ?? run.now) : undefined;
      return quietSince !== undefined && run.now >= quietSince + LAST_BLOCKS_MS;
    };
    const peaceMs = this.laws.areClocksRight ? PEACE_MS : PEACE_MS + LARGEST_ERROR_MS;
    const isQuiet = await run.runUntil(() => this.#checked(isOver()), peaceMs);
    if (!isQuiet) throw new BrokenLaw(`it does not end: ${this.laws.describe()}`);
    this.laws.checkEnd();
    run.throwIfBroken();
    await this.#checkDisk();
    run.throwIfBroken();
  }

  #isQuiet(): boolean {
    const areServed = this.#customers.every(({ isDone }) => isDone);
    const areChainsQuiet = this.#parts.every((part) => part.isQuiet?.() ?? true);
    return (
      areServed && areChainsQuiet && this.#chain.isQuiet() && this.laws.isQuiet() && this.laws.books.isQuiet()
    );
  }

  /** All that ran has died of the power or of the disk. */
  died(): void {
    for (const replica of this.#replicas) replica.restart();
    void this.#checkDisk();
  }

  async #checkDisk(): Promise<void> {
    const [simulation, disk, laws] = [this.#simulation, this.#disk, this.laws];
    if (disk !== undefined) await checkDisk({ simulation, disk, laws }, this.#folder);
  }

  end(): void {
    for (const replica of this.#replicas) replica.kill();
    this.#database?.close();
    this.#postgres?.close();
    this.laws.close();
  }

  #checked(isDone: boolean): boolean {
    this.laws.check();
    return isDone;
  }

  #crashes(replica: Replica): void {
    const run = this.#simulation;
    run.at(run.random("time to a crash") * 2 * MEAN_CRASH_MS, run.world, () => {
      if (run.isHealed) return;
      if (run.fault("a gateway stalls", 0.3)) replica.stall(run.delay("stall", 100, MAX_STALL_MS));
      else if (this.#disk !== undefined && run.fault("the power fails", 0.5)) {
        this.#disk.losePower();
        this.died();
      } else if (run.fault("a gateway is killed", 1)) replica.restart();
      this.#crashes(replica);
    });
  }

  #audits(replica: Replica): void {
    const run = this.#simulation;
    run.at(AUDIT_MS, run.world, () => {
      const { running } = replica;
      if (running !== undefined) run.at(0, running.process, () => this.#audit(running.store));
      this.#audits(replica);
    });
  }

  #audit(store: Store): void {
    store.totals().then(
      (totals) => this.laws.checkSums(totals),
      () => undefined,
    );
  }
}

function clientsIn(simulation: Simulation): number {
  return simulation.pick("clients", [4, 15, 40, 100]);
}

/** Seeds from 1 on, those of worlds with fewer clients first. */
export function smallestFirst(count: number): number[] {
  const seeds = Array.from({ length: count }, (_, i) => i + 1);
  const clients = new Map(seeds.map((seed) => [seed, clientsIn(new Simulation(seed))]));
  return seeds.sort((left, right) => (clients.get(left) ?? 0) - (clients.get(right) ?? 0));
}

/** Parts that only some worlds have, each with its share of the worlds. */
const PARTS = {
  "wrong clocks": [0.2, () => new WrongClocks()],
  "long work": [0.4, (simulation) => new LongWork(simulation)],
  webhooks: [0.4, (simulation) => new Senders(simulation)],
  "restricted jobs": [0.4, (simulation) => new Callers(simulation)],
  "payment identifiers": [0.4, (simulation) => new IdentifiedClients(simulation)],
  "a pricing engine": [0.4, (simulation) => new QuotedJob(simulation)],
  "a token without a chain": [0.4, (simulation) => new TrustingClients(simulation)],
  "push targets": [0.3, () => PUSH],
  callbacks: [0.3, () => CALLBACKS],
  "jobs that are charged after": [0.3, (simulation) => new PaidAfter(simulation)],
  "more protocols": [0.4, () => MORE_PROTOCOLS],
  "an API that is sold": [0.25, (simulation) => new SoldApi(simulation)],
  "payments on Solana": [0.2, (simulation) => new SolanaPayments(simulation)],
  "prices by what is asked": [0.35, (simulation) => new PricedRequests(simulation)],
  // In chosen worlds alone, so that the seeds of others stay as they are.
  "order and limits": [0, (simulation) => new OrderedWebhooks(simulation)],
  "payment channels": [0.1, (simulation, chain) => new PaymentChannels(simulation, chain)],
} satisfies Readonly<Record<string, readonly [rate: number, (simulation: Simulation, chain: Chain) => Part]>>;
export type PartName = keyof typeof PARTS;

/** Makes the parts of a world. @param chosen names of parts, in place of those that the seed draws */
function partsOf(
  { simulation, chain }: { readonly simulation: Simulation; readonly chain: Chain },
  chosen: readonly PartName[] | undefined,
): readonly Part[] {
  return Object.entries(PARTS).flatMap(([name, [rate, make]]) => {
    const isDrawn = () => simulation.random(`the world has ${name}`) < rate;
    return (chosen?.includes(name as PartName) ?? isDrawn()) ? [make(simulation, chain)] : [];
  });
}

/** Some address. */
function addressOf(name: string): `0x${string}` {
  return `0x${Buffer.from(name).toString("hex").padEnd(40, "0")}`;
}

function configOf(confirmations: number): Omit<X402Config, "facilitators"> {
  return {
    bindAddress: { kind: "tcp", host: "127.0.0.1", port: 1 },
    publicUrl: "https://shop.example",
    facilitatorTimeoutMs: 8_000,
    quoteTtlSecs: 120,
    maxBodyBytes: 1_000,
    corsOrigins: ["*"],
    maxUndecided: 100_000,
    maxOpenPerPayer: 256,
    settleMarginSecs: 10,
    defaultInvocationMode: "public_paid",
    acceptedTokens: (["eip3009", "permit2"] as const).map((transferMethod) => ({
      network: NETWORK,
      asset: ASSET,
      symbol: "USDC",
      decimals: 6,
      payTo: addressOf("seller"),
      rate: { kind: "fixed", ratePerNativeUnit: "3200.00" },
      markupBps: 0,
      transferMethod,
      eip3009: { name: "USDC", version: "2" },
      confirmations,
      requireOnchainConfirmation: true,
      rpcUrl: "http://node",
    })),
    jobPolicies: [],
    jobs: [
      {
        serviceId: 1n,
        jobIndex: 1,
        charge: ["used"],
        leastCharge: leastChargeOf({ basisPoints: 1_000 }),
        maxRunSecs: 20,
      },
    ],
    priceSource: "map",
    jobPricing: new Map([0, 1].map((job) => [`1/${job}`, 1_000_000_000_000_000n])),
    limits: { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 100, maxVerifies: 100 },
    parts: new Map(),
  };
}
