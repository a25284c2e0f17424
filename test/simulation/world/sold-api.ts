import { parseRoute, type Route } from "../../../src/core/route.ts";
import { type ApiConfig, apisTable } from "../../../src/parts/apis/config.ts";
import { ApiClient } from "./api-client.ts";
import type { SignedPayment } from "./laws.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import { type Peer, type PeerAnswer, type PeerRequest, Restarts } from "./peers.ts";
import type { Simulation } from "./simulation.ts";

const HOST = "api.example";
const NUMBERS = [4, 12] as const;
/** First of the numbers that these clients have. */
const FIRST = 3_000;
/** The route that may be called again, and the one that may not. */
const ROUTES = [
  { serviceId: 1n, jobIndex: 6, route: "GET /read/{name}" },
  { serviceId: 1n, jobIndex: 7, route: "POST /write/{name}" },
] as const;
/** The route whose answers are forgotten once they were sent. */
const UNSTORED = 7;
const TIMEOUT_MS = 4_000;
/** Sizes of large answers, by the attempt: half of the first is stored before it breaks off, and the second is shorter. */
const LARGE = [2_400_000, 1_100_000] as const;
/** More than is kept of an answer that is not charged. */
const LONG = 70_000;

const API: ApiConfig = {
  ...{ name: "sold", url: `http://${HOST}`, headers: {}, forwardHeaders: [], timeoutMs: TIMEOUT_MS },
  ...{ concurrency: 4, free: [], access: [], freeRate: 10, unchargedPerMinute: 1_000_000 },
};

/** Answers that the API has given in whole to a client. */
export type Answers = ReadonlyMap<string, readonly Required<Pick<PeerAnswer, "status" | "text">>[]>;

/** An API whose routes are sold: it fails, hangs, breaks off, and says nonsense. */
export class SoldApi implements Part {
  readonly #count: number;
  readonly #answers = new Map<string, Required<Pick<PeerAnswer, "status" | "text">>[]>();
  /** Requests that it got, by JobCall. */
  readonly #calls = new Map<number, { readonly method: string; count: number }>();

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("clients of an API", NUMBERS);
  }

  configure(shop: Shop): Shop {
    const { x402 } = shop;
    const jobs = ROUTES.map(({ route, ...key }) => ({
      ...({
        ...key,
        route: parseRoute(route) as Route,
        charge: ["after"],
        maxRunSecs: 8,
        waitSecs: 12,
      } as const),
      ...(key.jobIndex === UNSTORED && { storeAnswers: false as const }),
      ...{ maxResultBytes: 2 * LARGE[0], runner: { kind: "api", name: API.name, isIdempotent: false } },
    }));
    const prices = ROUTES.map(({ jobIndex }) => [`1/${jobIndex}`, 1_000_000_000_000_000n] as const);
    return {
      ...shop,
      x402: {
        ...x402,
        jobs: [...(x402.jobs ?? []), ...jobs],
        jobPricing: new Map([...x402.jobPricing, ...prices]),
        parts: new Map([...x402.parts, [apisTable, [API]]]),
      },
    };
  }

  peers({ simulation, laws }: Surroundings): readonly Peer[] {
    // The gateway itself is the runner: it ends a JobCall under the lease that it has.
    laws.onCommit((committed) => {
      if (committed.operation !== "claim") return;
      for (const { callId, leaseToken } of committed.outcome.calls)
        if (committed.input[0].subscriber === `API ${API.name}`) laws.leases.asks(callId, leaseToken);
    });
    const restarts = new Restarts(simulation, HOST);
    return [
      {
        host: HOST,
        isUp: () => restarts.isUp,
        sends: () => undefined,
        take: (request, _addresses, answer) => this.#take(simulation, restarts, request, answer),
      },
    ];
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { laws, simulation } = surroundings;
    const isOfApi = ({ client }: SignedPayment) => client.startsWith("reader") || client.startsWith("writer");
    laws.onSettle((payment) => {
      if (isOfApi(payment) && !this.#answered(payment.client).some(({ status }) => status < 300))
        simulation.break(`a facilitator is asked to settle a call of ${payment.client} that has no answer`);
    });
    return Array.from({ length: this.#count }, (_, i) => {
      const method = i % 2 === 0 ? "GET" : "POST";
      const name = `${method === "GET" ? "reader" : "writer"}-${i}`;
      const path = `/${method === "GET" ? "read" : "write"}/${name}`;
      return new ApiClient(surroundings, { name, number: FIRST + i, method, path, answers: this.#answers });
    });
  }

  #answered(client: string): readonly { readonly status: number }[] {
    return this.#answers.get(client) ?? [];
  }

  #take(
    run: Simulation,
    restarts: Restarts,
    { method, path, headers }: PeerRequest,
    answer: (answer: PeerAnswer | undefined) => void,
  ): void {
    const callId = Number(headers["x-jobgate-call-id"]);
    const [, , name = ""] = path.split("/");
    run.say(`${HOST} gets ${method} ${path} of JobCall ${callId}`);
    const call = this.#calls.get(callId) ?? { method, count: 0 };
    this.#calls.set(callId, call);
    call.count++;
    if (call.count > (method === "GET" ? 2 : 1)) run.break(`JobCall ${callId} was made ${call.count} times`);
    if (run.fault(`${HOST} hangs`, 0.04)) return;
    restarts.later(
      run.delay(`${HOST} works`, 1, 1_500),
      () => answer(this.#answer(run, name, callId, call.count)),
      () => answer(undefined),
    );
  }

  #answer(run: Simulation, name: string, callId: number, count: number): PeerAnswer {
    const failure = `${callId} ${count}`.padEnd(run.random(`${HOST} fails at length`) < 0.2 ? LONG : 0, ".");
    if (run.fault(`${HOST} fails`, 0.08)) return { status: 500, text: failure };
    if (run.fault(`${HOST} knows nothing`, 0.08)) return { status: 404, text: failure };
    if (run.fault(`${HOST} sends elsewhere`, 0.04))
      return { status: 302, headers: { location: "/elsewhere" }, text: failure };
    if (run.fault(`${HOST} wants to be paid`, 0.03)) return { status: 402, text: failure };
    if (run.fault(`${HOST} says nonsense`, 0.03)) return { status: 999, text: failure };
    const breaks = run.fault(`${HOST} breaks off`, 0.1);
    const isLarge = run.random(`${HOST} says much`) < (breaks || count > 1 ? 0.8 : 0.05);
    const whole = {
      status: run.pick(`${HOST} says`, [200, 201]),
      text: `${callId} ${count}`.padEnd(isLarge ? LARGE[count === 1 ? 0 : 1] : 0, String(count)),
    };
    if (breaks) return { ...whole, isCut: true };
    const answers = this.#answers.get(name) ?? [];
    this.#answers.set(name, answers);
    answers.push(whole);
    // It lies about what was paid.
    return {
      ...whole,
      headers: { "payment-response": "forged", "x-charged": "false", etag: `"${callId} ${count}"` },
    };
  }
}
