import { createHmac, createPublicKey, type KeyObject, verify } from "node:crypto";
import type { GatewayEvent } from "../../../src/core/events.ts";
import { toSigningKey } from "../../../src/core/standard-webhooks.ts";
import { buyersTable, type CallbackConfig } from "../../../src/parts/callbacks/config.ts";
import { CALLBACK_EVENTS } from "../../../src/parts/callbacks/store/events.ts";
import type { Callback } from "../../../src/parts/callbacks/store/ledger.ts";
import type { NameResolver } from "../../../src/parts/outbound/guarded-lookup.ts";
import type { Committed } from "../../../src/store/operations.ts";
import type { Database } from "../../../src/store/sqlite/driver.ts";
import type { Part, Shop, Surroundings } from "./part.ts";
import { type Peer, type PeerAnswer, type PeerRequest, Restarts } from "./peers.ts";
import type { Process, Simulation } from "./simulation.ts";

const BUYERS = ["buyer-0.example", "buyer-1.example"];
const OPERATOR = "operator.example";
const OPERATOR_SECRET = Buffer.alloc(32, 9);
const PUBLIC_ADDRESS = "93.184.216.34";
const PRIVATE_ADDRESS = "10.0.0.9";
/** Time after which a gateway takes a request for lost. */
const TIMEOUT_MS = 10_000;

/** Key that signs what buyers are told. */
export const CALLBACK_KEY = `whsk_${Buffer.alloc(32, 5).toString("base64")}`;
const PUBLIC_KEY = createPublicKey(toSigningKey(CALLBACK_KEY) as KeyObject);

/** Table of the operator's configuration. */
export const CALLBACK_ENDPOINT: CallbackConfig = {
  url: `https://${OPERATOR}/events`,
  events: CALLBACK_EVENTS.filter((event) => event !== "payment.unresolved"),
  secrets: [`whsec_${OPERATOR_SECRET.toString("base64")}`],
};

/** Returns the URL at which some client wants to be called back; undefined if it does not. */
export function callbackUrlOf(simulation: Simulation, client: string): string | undefined {
  if (simulation.random(`${client} wants to be called back`) < 0.4) return undefined;
  return `https://${simulation.pick(`${client} listens at`, BUYERS)}/done`;
}

/** Name servers, one of which lies now and then. */
export function resolverOf(simulation: Simulation): NameResolver {
  const resolve4 = (): Promise<string[]> => {
    const isWrong = simulation.fault("a name resolves to a private address", 0.02);
    return Promise.resolve([isWrong ? PRIVATE_ADDRESS : PUBLIC_ADDRESS]);
  };
  return { resolve4, resolve6: () => Promise.reject(new Error("ENODATA")) } as unknown as NameResolver;
}

const RULES = { ports: [443], allowedAddresses: [] };

/** Buyers and an operator who are called back. */
export const CALLBACKS: Part = {
  configure: (shop: Shop): Shop => ({
    ...shop,
    x402: { ...shop.x402, parts: new Map([...shop.x402.parts, [buyersTable, RULES]]) },
    callsBack: true,
  }),
  peers: (surroundings: Surroundings) => new CallbackHosts(surroundings).peers,
};

interface InFlight {
  readonly sender: Process;
  readonly until: number;
}

/** The hosts of buyers and of the operator that are called back, and the laws of callbacks. */
class CallbackHosts {
  readonly #simulation: Simulation;
  readonly peers: readonly Peer[];
  /** Answers 2xx and 410, by host and id. */
  readonly #answers = new Map<string, Set<number>>();
  /** Bodies by what they tell and by their ids. */
  readonly #told = new Map<string, Map<string, string>>();
  /** How often dead JobCalls were retried: their events come once more. */
  readonly #retries = new Map<number, number>();
  /** How often refunds failed, by call ID: each attempt can fail once. */
  readonly #failedRefunds = new Map<number, number>();
  /** Callbacks that the store knows to be sent, by host and id. */
  readonly #recorded = new Set<string>();
  readonly #inFlight = new Map<string, Map<PeerRequest, InFlight>>();

  constructor({ simulation, laws }: Surroundings) {
    this.#simulation = simulation;
    laws.onCommit((committed) => this.#committed(committed));
    laws.atEnd((database) => this.#checkEnd(database));
    this.peers = [...BUYERS, OPERATOR].map((host) => this.#peer(host));
  }

  #committed({ operation, input, outcome, ...step }: Committed): void {
    if (operation === "step") {
      const { name, event } = step as { readonly name: string; readonly event: GatewayEvent | undefined };
      const isFailed = event?.what.kind === "partChanged" && event.what.state === "refund_failed";
      if (event && isFailed)
        this.#failedRefunds.set(event.callId, (this.#failedRefunds.get(event.callId) ?? 0) + 1);
      const callback = name === "endCallback" ? (outcome as Callback | undefined) : undefined;
      if (callback?.state === "sent") {
        const { host, callId, at } = callback;
        this.#recorded.add(`${host} ${callback.event.replace(".", "_")}_${callId}_${at}`);
      }
      return;
    }
    if (operation === "retryDeadLetter") this.#retries.set(input[0], this.#mostOf(input[0]));
  }

  /** Checks in the end that everyone was told, unless he asked not to be. */
  #checkEnd(database: Database): void {
    for (const row of callbacksIn(database)) {
      const name = `${row.host} ${row.event.replace(".", "_")}_${row.call_id}_${row.at}`;
      const answer = row.state === "sent" ? 200 : 410;
      if (!this.#answers.get(name)?.has(answer))
        this.#simulation.break(`${name} is ${row.state}, and was not`);
    }
    for (const { event, call_id, n } of wantedCallbacks(database))
      if (n === 0 || n > this.#mostOf(call_id))
        this.#simulation.break(`${event} of JobCall ${call_id} has ${n} callbacks`);
  }

  /** Returns how often an event of a JobCall may come. */
  #mostOf(callId: number): number {
    return 1 + (this.#retries.get(callId) ?? 0);
  }

  #peer(host: string): Peer {
    const restarts = new Restarts(this.#simulation, host);
    return {
      host,
      isUp: () => restarts.isUp,
      sends: (request) => this.#sends(host, request),
      ends: (request) => void this.#inFlight.get(host)?.delete(request),
      take: (request, addresses, answer) => {
        const later = this.#take(host, request, addresses);
        if (later === undefined) return;
        restarts.later(
          later.ms,
          () => {
            this.#noteAnswer(`${host} ${request.headers["webhook-id"]}`, later.answer.status);
            answer(later.answer);
          },
          () => answer(undefined),
        );
      },
    };
  }

  #sends(host: string, request: PeerRequest): void {
    const run = this.#simulation;
    const id = request.headers["webhook-id"];
    if (this.#recorded.has(`${host} ${id}`))
      run.break(`${host} is told again of ${id}, which is recorded as sent`);
    const others = this.#inFlight.get(host) ?? new Map<PeerRequest, InFlight>();
    for (const { sender, until } of others.values())
      if (sender.isAlive && until > run.now) run.break(`${host} is called twice at a time`);
    this.#inFlight.set(host, others.set(request, { sender: run.current, until: run.now + TIMEOUT_MS }));
  }

  #take(
    host: string,
    { headers, body }: PeerRequest,
    addresses: readonly string[],
  ): { readonly ms: number; readonly answer: PeerAnswer } | undefined {
    const run = this.#simulation;
    const id = headers["webhook-id"] ?? "";
    const text = Buffer.from(body).toString();
    run.say(`${host} is told of ${id}`);
    if (host !== OPERATOR && addresses.includes(PRIVATE_ADDRESS))
      run.break(`${host} is called at a private address`);
    if (!isSigned(host, headers, text)) run.break(`${id} has a wrong signature`);
    const { type, data } = JSON.parse(text) as { type: string; data: { call_id: number; status?: string } };
    const event = `${host} ${type} ${data.call_id} ${data.status ?? ""}`;
    const told = this.#told.get(event) ?? new Map<string, string>();
    if ((told.get(id) ?? text) !== text) run.break(`${host} is told ${told.get(id)} and ${text} as ${id}`);
    this.#told.set(event, told.set(id, text));
    const most =
      type === "refund.failed" ? (this.#failedRefunds.get(data.call_id) ?? 0) : this.#mostOf(data.call_id);
    if (told.size > most) run.break(`${host} is told of one event as ${[...told.keys()].join(" and ")}`);
    if (run.fault(`${host} stalls`, 0.05)) return undefined;
    const ms =
      run.delay(`${host} works`, 1, 2_000) + (run.fault(`${host} answers late`, 0.05) ? TIMEOUT_MS : 0);
    if (run.fault(`${host} wants no more`, 0.02)) return { ms, answer: { status: 410 } };
    if (run.fault(`${host} fails`, 0.1)) return { ms, answer: { status: 500 } };
    if (run.fault(`${host} redirects`, 0.03)) return { ms, answer: { status: 307 } };
    if (run.fault(`${host} asks to wait`, 0.03))
      return { ms, answer: { status: 429, headers: { "retry-after": "20" } } };
    return { ms, answer: { status: 200 } };
  }

  #noteAnswer(name: string, status: number): void {
    this.#answers.set(name, (this.#answers.get(name) ?? new Set()).add(status));
  }
}

function isSigned(host: string, headers: PeerRequest["headers"], body: string): boolean {
  const signed = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`);
  const [version = "", signature = ""] = headers["webhook-signature"]?.split(",") ?? [];
  if (host !== OPERATOR)
    return version === "v1a" && verify(null, signed, PUBLIC_KEY, Buffer.from(signature, "base64"));
  return (
    version === "v1" && createHmac("sha256", OPERATOR_SECRET).update(signed).digest("base64") === signature
  );
}

interface StoredCallback {
  readonly event: string;
  readonly call_id: number;
  readonly at: number;
  readonly host: string;
  readonly state: string;
}

function callbacksIn(database: Database): StoredCallback[] {
  return database.prepare<StoredCallback>("SELECT event, call_id, at, host, state FROM callbacks").all([]);
}

interface Wanted {
  readonly event: string;
  readonly call_id: number;
  /** Callbacks that there are. */
  readonly n: number;
}

/** Returns the events that call somebody back. */
function wantedCallbacks(database: Database): Wanted[] {
  // A refund ends a call once more.
  const count = `count(*) FILTER (WHERE data ->> '$.status' IS NOT 'refunded')`;
  return database
    .prepare<Wanted>(
      `WITH ended (call_id) AS (
         SELECT call_id FROM finished_calls WHERE state = 'succeeded' UNION ALL SELECT call_id FROM job_calls WHERE state = 'dead'),
       wanted (event, call_id, is_buyers) AS (
         SELECT 'payment.settled', call_id, 0 FROM payments WHERE state = 'settled'
         UNION ALL SELECT 'dead_letter', call_id, 0 FROM job_calls WHERE state = 'dead'
         UNION ALL SELECT 'call.finished', call_id, 0 FROM ended
         UNION ALL SELECT 'call.finished', call_id, 1 FROM ended JOIN payments USING (call_id) WHERE notes ->> '$."Callback-URL"' IS NOT NULL
         UNION ALL SELECT 'refund.sent', call_id, 0 FROM refunds WHERE state = 'refunded'
         UNION ALL SELECT 'refund.sent', call_id, 1 FROM refunds JOIN payments USING (call_id)
           WHERE refunds.state = 'refunded' AND notes ->> '$."Callback-URL"' IS NOT NULL)
       SELECT event, call_id, (SELECT ${count} FROM callbacks WHERE callbacks.call_id = wanted.call_id
         AND callbacks.event = wanted.event AND callbacks.is_buyers = wanted.is_buyers) AS n FROM wanted`,
    )
    .all([]);
}
