import type { WebhookEndpoint } from "../../../src/config/config.ts";
import { keyOf, parseKeySource } from "../../../src/parts/flow/key.ts";
import { FLOW } from "../../../src/parts/flow/store/module.ts";
import type { Store } from "../../../src/store/store.ts";
import { JSON_BEGINS } from "./laws.ts";
import { OrderLaws } from "./order-laws.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import { Requests } from "./requests.ts";
import type { Simulation } from "./simulation.ts";

const DAY_MS = 86_400_000;
const MOST_HELD = 20;
const LOOK_MS = 4_000;
/** Keys of each endpoint with an order. */
const KEYS = [2, 4] as const;
const EVENTS_OF_KEY = 4;
const EVENTS_OF_LIMIT = 10;

const SOURCE = parseKeySource("json:/key");

/** @param key place of the key, and what a dead letter does to it */
function endpoint(path: string, jobId: bigint, more: Pick<WebhookEndpoint, "limit"> & { holds?: boolean }) {
  const { holds: holdsOnDead, limit } = more;
  const orderOf: WebhookEndpoint["orderOf"] = (request, body) => {
    const key = SOURCE && keyOf(SOURCE, request, body);
    return key === undefined || holdsOnDead === undefined ? undefined : { owner: path, key, holdsOnDead };
  };
  const dedupe = { by: "header", header: "x-delivery-id", windowMs: DAY_MS } as const;
  return { path, jobId, auth: { mode: "none" }, dedupe, orderOf, ...(limit && { limit }) } as const;
}

const ORDERED = [
  endpoint("/hooks/ordered", 21n, { holds: false, limit: { concurrency: 2 } }),
  endpoint("/hooks/held", 22n, { holds: true }),
];
const LIMITED = [
  endpoint("/hooks/few", 23n, { limit: { concurrency: 2 } }),
  endpoint("/hooks/slow", 24n, { limit: { rate: { calls: 3, perMs: 1_000 } } }),
];

/** Senders of webhooks whose JobCalls have an order, or limits. Nobody sends them in worlds without this part. */
export class OrderedWebhooks implements Part {
  readonly #keys: number;

  constructor(simulation: Simulation) {
    this.#keys = simulation.pick("keys of an endpoint", KEYS);
  }

  configure(shop: Shop): Shop {
    const webhooks = shop.webhooks ?? {
      bindAddress: { kind: "tcp", host: "127.0.0.1", port: 2 },
      maxBodyBytes: 1_000,
      endpoints: [],
    };
    return { ...shop, webhooks: { ...webhooks, endpoints: [...webhooks.endpoints, ...ORDERED, ...LIMITED] } };
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws, replicas } = surroundings;
    const limits = [...ORDERED, ...LIMITED].flatMap(({ jobId, limit }) =>
      limit ? [[String(jobId), limit] as const] : [],
    );
    decideAboutKeys(simulation, replicas, new OrderLaws(simulation, laws, new Map(limits)));
    const keys = ORDERED.flatMap(({ path }) =>
      Array.from({ length: this.#keys }, (_, i) => ({ path, name: `key ${i} of ${path}`, atOnce: false })),
    );
    const bursts = LIMITED.map(({ path }) => ({ path, name: `burst at ${path}`, atOnce: true }));
    return [...keys, ...bursts].map((stream) => new EventStream(surroundings, stream));
  }
}

/** Lets an operator retry or drop the dead letters that hold keys up, and sometimes retry another one. */
function decideAboutKeys(
  simulation: Simulation,
  replicas: Surroundings["replicas"],
  orderLaws: Pick<OrderLaws, "dead">,
): void {
  const look = async (store: Store) => {
    try {
      for (const { deadLetter } of await store.of(FLOW).listHeldKeys(MOST_HELD)) {
        if (deadLetter === undefined) continue;
        const { callId } = deadLetter;
        const isRetried = simulation.random("the operator retries what holds a key") < 0.5;
        await (isRetried ? store.retryDeadLetter(callId) : store.dropDeadLetter(callId));
        simulation.say(
          `the operator ${isRetried ? "retries" : "drops"} JobCall ${callId}, which held its key`,
        );
      }
      if (!simulation.fault("the operator retries a dead letter of a key that goes on", 0.3)) return;
      const [dead] = orderLaws.dead;
      if (dead !== undefined) await store.retryDeadLetter(dead);
    } catch {
      // The next look may find more.
    }
  };
  simulation.at(LOOK_MS, simulation.world, () => {
    const { running } = simulation.pick("the operator of keys asks", replicas);
    if (running !== undefined) simulation.at(1, running.process, () => void look(running.store));
    decideAboutKeys(simulation, replicas, orderLaws);
  });
}

/** A sender that sends each event of a key until it hears that it was taken, and then the next; or all events at once. */
class EventStream implements Customer {
  readonly name: string;
  readonly #surroundings: Surroundings;
  readonly #requests: Requests;
  readonly #path: string;
  readonly #atOnce: boolean;
  readonly #taken: number[] = [];
  readonly #delivered = new Set<number>();

  constructor(
    surroundings: Surroundings,
    { path, name, atOnce }: { readonly path: string; readonly name: string; readonly atOnce: boolean },
  ) {
    const { laws, simulation } = surroundings;
    this.name = name;
    this.#surroundings = surroundings;
    this.#requests = new Requests({ ...surroundings, name });
    this.#path = path;
    this.#atOnce = atOnce;
    laws.watch(name, (callId) => this.#delivered.add(callId));
    laws.atEnd(() => {
      for (const callId of this.#taken)
        if (laws.tracesOf(callId) !== 1 || !this.#delivered.has(callId))
          simulation.break(`an event of ${name} was taken, and its JobCall ${callId} never delivered`);
    });
  }

  get #count(): number {
    return this.#atOnce ? EVENTS_OF_LIMIT : EVENTS_OF_KEY;
  }

  get isDone(): boolean {
    return this.#taken.length === this.#count;
  }

  start(): void {
    if (this.#atOnce) for (let i = 0; i < this.#count; i++) this.#send(i, () => undefined);
    else this.#sendFrom(0);
  }

  #sendFrom(number: number): void {
    if (number < this.#count) this.#send(number, () => this.#sendFrom(number + 1));
  }

  /** Sends an event until it is taken. */
  #send(number: number, onTaken: () => void): void {
    const body = `${JSON_BEGINS}${this.name}: event ${number}","key":"${this.name}"}`;
    const id = `${this.name}, event ${number}`;
    const request = { method: "POST" as const, path: this.#path, headers: { "x-delivery-id": id }, body };
    this.#requests.send(request, id, (answer) => {
      const { call_id: callId } = JSON.parse(String(answer?.body ?? "{}")) as { call_id?: number };
      if (answer?.status !== 202 || callId === undefined) {
        this.#requests.later(1_000, () => this.#send(number, onTaken));
        return;
      }
      const last = this.#taken.at(-1) ?? 0;
      if (!this.#atOnce && callId <= last)
        this.#surroundings.simulation.break(`${id} was taken as JobCall ${callId}, after JobCall ${last}`);
      this.#taken.push(callId);
      onTaken();
    });
  }
}
