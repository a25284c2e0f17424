import { setTimeout as sleep } from "node:timers/promises";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { CheckedRequest, Contribution, Terms, TermsCheck } from "../../x402/purchase/terms.ts";
import { CLIENT_METADATA, traceparentOf } from "./api-request.ts";
import type { ApiConfig } from "./config.ts";
import type { UnchargedCalls } from "./uncharged-calls.ts";

/** Longest time that a paid request waits for a free place at an API. */
const MAX_WAIT_MS = 2_000;
const LOOK_MS = 20;

/** An API that runs a job. */
interface SoldApi {
  readonly api: ApiConfig;
  readonly isUp: boolean;
}

/** Refuses paid requests to an API that has no room for them, before their payments are verified. */
export class ApiTerms implements Terms {
  readonly checks: readonly TermsCheck[] = [
    {
      name: "api",
      before: "verification",
      refusals: ["api_unreachable", "rate_limited", "api_busy"],
      run: (request) => this.#enter(request),
    },
  ];
  readonly #find: (job: JobKey) => SoldApi | undefined;
  readonly #inFlight: (api: string) => number;
  readonly #uncharged: UnchargedCalls;
  /** Requests that have a place, by API, until their JobCalls are queued. */
  readonly #entered = new Map<string, number>();

  constructor(parts: {
    /** Finds the API that runs a job. */
    readonly find: (job: JobKey) => SoldApi | undefined;
    /** Returns the calls that an API works on. */
    readonly inFlight: (api: string) => number;
    readonly uncharged: UnchargedCalls;
  }) {
    this.#find = parts.find;
    this.#inFlight = parts.inFlight;
    this.#uncharged = parts.uncharged;
  }

  /** @throws GatewayError `api_unreachable` */
  requireOpen(job: JobKey): void {
    if (this.#find(job)?.isUp !== false) return;
    throw new GatewayError("api_unreachable", "The API does not work now. Nothing was charged: try again.", {
      headers: { "retry-after": "5" },
    });
  }

  async #enter({ job, request, client, payment }: CheckedRequest): Promise<Contribution | undefined> {
    const found = this.#find(job);
    if (found === undefined) return undefined;
    this.requireOpen(job);
    const { api } = found;
    this.#uncharged.check(api, payment.from, client);
    const { name, concurrency } = api;
    for (let waitedMs = 0; !this.#hasRoom(name, concurrency); waitedMs += LOOK_MS) {
      if (waitedMs >= MAX_WAIT_MS)
        throw new GatewayError("api_busy", "The API has too many requests. Nothing was charged: try again.", {
          headers: { "retry-after": "2" },
        });
      await sleep(LOOK_MS);
    }
    this.#add(name, 1);
    const traceparent = traceparentOf(request.headerValues("traceparent"));
    const requestMetadata = [[CLIENT_METADATA, client] as const, ["traceparent", traceparent] as const];
    return { requestMetadata, leave: () => this.#add(name, -1) };
  }

  #hasRoom(name: string, concurrency: number): boolean {
    return this.#inFlight(name) + (this.#entered.get(name) ?? 0) < concurrency;
  }

  #add(name: string, count: number): void {
    this.#entered.set(name, (this.#entered.get(name) ?? 0) + count);
  }
}
