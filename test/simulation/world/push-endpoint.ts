import { createHmac } from "node:crypto";
import { IMPOSSIBLE } from "./client.ts";
import { type Laws, PRICE } from "./laws.ts";
import type { Part, Shop, Surroundings } from "./part.ts";
import { type Peer, type PeerAnswer, type PeerRequest, Restarts } from "./peers.ts";
import type { Simulation } from "./simulation.ts";

const SECRET = Buffer.alloc(32, 7);
const HOST = "runner.example";
/** Longer than a lease: the gateway extends it. */
const TIMEOUT_MS = 12_000;
/** Smallest answer that comes after the gateway's time-out. */
const STALL_MS = 15_000;

/** Table of the configuration. */
export const PUSH_TARGET = {
  ...{ url: `https://${HOST}/jobs`, concurrency: 3, timeoutMs: TIMEOUT_MS, jobIds: [] },
  secrets: [`whsec_${SECRET.toString("base64")}`],
};

/** A target to which gateways push JobCalls. */
export const PUSH: Part = {
  configure: (shop: Shop): Shop => ({ ...shop, pushes: true }),
  peers: ({ simulation, laws }: Surroundings) => [new PushEndpoint(simulation, laws)],
};

/** A runner that gets its JobCalls by HTTP. */
class PushEndpoint implements Peer {
  readonly host = HOST;
  readonly #simulation: Simulation;
  readonly #laws: Laws;
  readonly #restarts: Restarts;

  constructor(simulation: Simulation, laws: Laws) {
    this.#simulation = simulation;
    this.#laws = laws;
    this.#restarts = new Restarts(simulation, HOST);
  }

  isUp(): boolean {
    return this.#restarts.isUp;
  }

  sends({ headers }: PeerRequest): void {
    const lease = { callId: Number(headers["ce-id"]), leaseToken: headers["ce-leasetoken"] ?? "" };
    this.#laws.sent({ ...lease, attempt: Number(headers["ce-attempt"]) });
  }

  take(
    { headers, body }: PeerRequest,
    _addresses: readonly string[],
    answer: (answer: PeerAnswer | undefined) => void,
  ): void {
    const run = this.#simulation;
    const text = Buffer.from(body).toString();
    const callId = Number(headers["ce-id"]);
    run.say(`${HOST} gets JobCall ${callId} (attempt ${headers["ce-attempt"]})`);
    this.#laws.delivered(callId, text);
    const head = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`;
    const signature = createHmac("sha256", SECRET).update(head).update(body).digest("base64");
    if (headers["webhook-signature"] !== `v1,${signature}`)
      run.break(`JobCall ${callId} has a wrong signature`);
    if (run.fault(`${HOST} stalls`, 0.03)) return;
    const isLate = run.fault(`${HOST} answers late`, 0.05);
    const workMs =
      run.delay(`${HOST} works`, 1, 1_500) + (isLate ? run.pick(`${HOST} is late`, [7_000, STALL_MS]) : 0);
    this.#restarts.later(
      workMs,
      () => answer(this.#finish(callId, text, headers)),
      () => answer(undefined),
    );
  }

  #finish(callId: number, text: string, headers: PeerRequest["headers"]): PeerAnswer {
    const run = this.#simulation;
    if (text.endsWith(IMPOSSIBLE) || run.fault(`${HOST} is busy`, 0.05)) return { status: 503, text: "busy" };
    if (run.fault(`${HOST} asks to wait`, 0.02)) return { status: 429, headers: { "retry-after": "2" } };
    if (run.fault(`${HOST} refuses a JobCall`, 0.03)) return { status: 422, text: "impossible" };
    this.#laws.leases.asks(callId, headers["ce-leasetoken"] ?? "");
    if (headers["X-X402-PAYMENT-SCHEME"] === "upto") this.#laws.asks(text, PRICE);
    return { status: 200, headers: { "content-type": "text/plain" }, text: "done" };
  }
}
