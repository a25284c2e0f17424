import type { WebhookEndpoint, WebhooksConfig } from "../../../src/config/config.ts";
import { schemeOf } from "../../../src/webhooks/auth/schemes.ts";
import type { Laws } from "./laws.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import { Requests } from "./requests.ts";
import type { Simulation } from "./simulation.ts";

const DAY_MS = 86_400_000;
/** The ID of a delivery is beside the signed body, or signed with it. */
const WEBHOOKS: WebhooksConfig = {
  bindAddress: { kind: "tcp", host: "127.0.0.1", port: 2 },
  maxBodyBytes: 1_000,
  endpoints: [
    {
      ...{ path: "/hooks/body", jobId: 5n },
      auth: { mode: "hmac-sha256", secrets: [{ name: "body", secret: "a secret" }] },
      dedupe: { by: "header", header: "x-delivery-id", windowMs: DAY_MS },
    },
    {
      ...{ path: "/hooks/signed-id", jobId: 6n },
      auth: {
        ...{ mode: "standard-webhooks", toleranceSecs: 300 },
        secrets: [{ name: "signed", secret: "whsec_c2VjcmV0IG9mIHRoZSBzZW5kZXIgYW5kIHVz" }],
      },
      dedupe: { by: "id", windowMs: DAY_MS },
    },
  ],
};
const ID_HEADERS = ["x-delivery-id", "webhook-id"] as const;
const NUMBERS = [5, 20, 40] as const;

/** Senders of webhooks, each with one event that it repeats until it hears that it was taken. */
export class Senders implements Part {
  readonly #count: number;

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("senders", NUMBERS);
  }

  configure(shop: Shop): Shop {
    return { ...shop, webhooks: WEBHOOKS };
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    return Array.from({ length: this.#count }, (_, i) => new Sender(surroundings, i));
  }
}

interface Delivery {
  readonly id: string;
  readonly body: string;
}

class Sender implements Customer {
  readonly name: string;
  readonly #simulation: Simulation;
  readonly #laws: Laws;
  readonly #requests: Requests;
  readonly #endpoint: WebhookEndpoint;
  readonly #idHeader: string;
  readonly #event: Delivery;
  /** The call that the event became. */
  #callId: number | undefined;
  /** Bodies that only a stranger has sent. */
  readonly #forged = new Set<string>();
  readonly #ran = new Map<number, string>();
  isDone = false;

  constructor(surroundings: Surroundings, number: number) {
    const { simulation, laws } = surroundings;
    this.name = `sender ${number}`;
    this.#simulation = simulation;
    this.#laws = laws;
    this.#requests = new Requests({ ...surroundings, name: this.name });
    const which = number % 2;
    this.#endpoint = WEBHOOKS.endpoints[which] as WebhookEndpoint;
    this.#idHeader = ID_HEADERS[which] as string;
    this.#event = { id: `event-of-sender-${number}`, body: `${this.name}: event` };
    laws.watch(this.name, (callId, body) => this.#runs(callId, body));
  }

  start(): void {
    const { id, body } = this.#event;
    const fault = (what: string) => this.#simulation.fault(`${this.name} ${what}`, 0.15);
    if (fault("is impersonated")) this.#forge({ id: `${id}-forged`, body: `${body}, forged` });
    if (fault("is overheard")) this.#replayElsewhere();
    else if (fault("gives its ID to another event"))
      this.#send({ id, body: `${body}, another` }, () => undefined);
    this.#deliver();
  }

  /** Sends the event until it is taken, and sometimes after that. */
  #deliver(): void {
    const fault = (what: string) => this.#simulation.fault(`${this.name} ${what}`, 0.15);
    if (fault("repeats at once")) this.#send(this.#event, () => undefined);
    this.#send(this.#event, (status) => {
      const isOver = status === 202 || status === 409;
      if (!isOver || fault("repeats what was taken")) this.#requests.later(3_000, () => this.#deliver());
      else this.isDone = true;
    });
  }

  /** Sends with the secret. */
  #send(delivery: Delivery, onStatus: (status: number | undefined) => void): void {
    const { id, body } = delivery;
    const now = this.#simulation.wallMs;
    const signed = schemeOf(this.#endpoint).sign(Buffer.from(body), { now, deliveryId: id });
    this.#post(delivery, signed, (status, callId) => {
      if (status === 401 && this.#laws.areClocksRight)
        this.#simulation.break(`${this.name} was refused although it knows the secret`);
      if (status === 202 && callId !== undefined && body === this.#event.body) this.#taken(callId);
      onStatus(status);
    });
  }

  /** Sends without the secret. */
  #forge(delivery: Delivery): void {
    const { id, body } = delivery;
    this.#forged.add(body);
    const now = this.#simulation.wallMs;
    const other = this.#event.body;
    const signed = schemeOf(this.#endpoint).sign(Buffer.from(other), { now, deliveryId: id });
    this.#post(delivery, signed, (status) => {
      if (status === 202) this.#simulation.break(`${this.name} was impersonated`);
    });
  }

  /** Sends what was overheard, under another ID. */
  #replayElsewhere(): void {
    const { id, body } = this.#event;
    const now = this.#simulation.wallMs;
    const signed = schemeOf(this.#endpoint).sign(Buffer.from(body), { now, deliveryId: id });
    this.#post({ id: `${id}-replayed`, body }, signed, (status) => {
      if (status === 202 && this.#endpoint.dedupe?.by === "id")
        this.#simulation.break(`${this.name} was overheard, and its signed ID replaced`);
    });
  }

  #post(
    { id, body }: Delivery,
    signed: Readonly<Record<string, string>>,
    onAnswer: (status: number | undefined, callId: number | undefined) => void,
  ): void {
    const lower = Object.entries(signed).map(([name, value]) => [name.toLowerCase(), value]);
    const headers = { ...(Object.fromEntries(lower) as Record<string, string>), [this.#idHeader]: id };
    const request = { method: "POST" as const, path: this.#endpoint.path, headers, body };
    this.#requests.send(request, `${JSON.stringify(body)} as ${id}`, (answer) => {
      const { call_id: callId } = JSON.parse(String(answer?.body ?? "{}")) as { call_id?: number };
      onAnswer(answer?.status, callId);
    });
  }

  #taken(callId: number): void {
    if (this.#callId !== undefined && this.#callId !== callId)
      this.#simulation.break(`the event of ${this.name} became JobCalls ${this.#callId} and ${callId}`);
    if (this.#laws.tracesOf(callId) !== 1)
      this.#simulation.break(`the event of ${this.name} was taken, and has no JobCall`);
    this.#callId = callId;
    this.#checkRun(callId);
  }

  /** Checks that the JobCall taken as the event has its body. */
  #checkRun(callId: number): void {
    const ran = this.#ran.get(callId);
    if (callId === this.#callId && ran !== undefined && ran !== this.#event.body)
      this.#simulation.break(`the event of ${this.name} became a JobCall for another one`);
  }

  #runs(callId: number, body: string): void {
    if (this.#forged.has(body)) this.#simulation.break(`JobCall ${callId} runs, and a stranger sent it`);
    this.#ran.set(callId, body);
    this.#checkRun(callId);
    // Of an event and another one with its ID, one is taken.
    if (this.#ran.size > 1)
      this.#simulation.break(`${this.name} has JobCalls ${[...this.#ran.keys()].join(" and ")}`);
  }
}
