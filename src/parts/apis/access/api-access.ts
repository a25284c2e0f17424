import { createHash } from "node:crypto";
import { equalInConstantTime } from "../../../core/constant-time.ts";
import { GatewayError } from "../../../core/errors.ts";
import type { JobKey } from "../../../core/job-call.ts";
import { oneSpelling } from "../../../core/payment.ts";
import type { Telemetry } from "../../../core/telemetry.ts";
import type { RateLimit } from "../../../http/limits.ts";
import { bearerToken, type HttpRequest } from "../../../http/request.ts";
import type { RouteAnswer } from "../../../http/routes.ts";
import type { CallLookup } from "../../../store/contract/call-lookup.ts";
import type { PayerProof, ProofPurpose, ProvenPayer } from "../../../x402/calls/access-tokens.ts";
import { canonicalPath } from "../../../x402/jobs/job-routes.ts";
import type { Checkout } from "../../../x402/purchase/checkout.ts";
import type { ClientLimits } from "../../../x402/purchase/client-limits.ts";
import type { UnpaidAccess } from "../../../x402/purchase/terms.ts";
import type { ApiConfig } from "../config.ts";
import type { PassThrough } from "../pass-through.ts";
import type { AccessConfig, ApiKey } from "./config.ts";

interface Parts {
  /** Finds the API that does a job, with its pass-through. */
  readonly find: (job: JobKey) => { readonly api: ApiConfig; readonly passThrough: PassThrough } | undefined;
  readonly publicUrl: string;
  readonly checkout: Pick<Checkout, "readBody" | "requestHashOf">;
  /** Undefined if no API lets clients sign in. */
  readonly payerProof: PayerProof | undefined;
  readonly calls: Pick<CallLookup, "listBought" | "findCall">;
  readonly limits: Pick<ClientLimits, "countWrongToken">;
  readonly rates: RateLimit;
  readonly telemetry: Pick<Telemetry, "count">;
}

/** A client that has access. */
interface Known {
  readonly by: "key" | "sign_in" | "payment";
  /** Name of the key, or the account in lower case. Metrics do not name payers, because their number is unbounded. */
  readonly name: string;
  readonly access: AccessConfig;
  /** Body of the request, if it was read. */
  readonly body?: Uint8Array;
}

/** Passes requests of known clients through to the APIs without a payment: `[[apis.access]]`. */
export class ApiAccess implements UnpaidAccess {
  readonly #parts: Parts;
  /** Keys of an API, by its first access that has keys. */
  readonly #keys = new WeakMap<AccessConfig, ReadonlyMap<string, { sha256: string; known: Known }>>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * @throws GatewayError `unauthorized` for a key that is not known, and the refusals of {@link PayerProof.payerOf} and
   *   {@link PassThrough.answer}
   */
  async answer(request: HttpRequest, job: JobKey, pays: boolean): Promise<RouteAnswer | undefined> {
    const found = this.#parts.find(job);
    if (found === undefined) return undefined;
    const { api, passThrough } = found;
    const keyed = this.#keyOf(request, api);
    if (pays) return undefined;
    const known = keyed ?? (await this.#signedIn(request, job, api));
    if (known === undefined) return undefined;
    const { rates, checkout, telemetry } = this.#parts;
    const { by, name, access, body } = known;
    const who = `${api.name} ${by} ${name}`;
    const { serviceId, jobIndex } = job;
    const labels = { api: api.name, service_id: String(serviceId), job_id: String(jobIndex), by };
    return passThrough.answer(request, {
      admit: () => rates.count(who, access.rate, `Too many requests of ${name}`),
      readBody: async () => body ?? checkout.readBody(request, job),
      count: (code) =>
        telemetry.count("jobgate_api_access_requests_total", {
          ...labels,
          ...{ name: by === "payment" ? "" : name, code },
        }),
    });
  }

  extensionsFor(request: HttpRequest, job: JobKey) {
    const api = this.#parts.find(job)?.api;
    return api?.access.some(asksWho)
      ? this.#parts.payerProof?.challengeFor(this.#purposeOf(request))
      : undefined;
  }

  /**
   * Finds the key that a request carries.
   * @returns undefined if the request or the API has no key
   * @throws GatewayError `unauthorized`, `rate_limited`
   */
  #keyOf(request: HttpRequest, { access: accesses }: ApiConfig): Known | undefined {
    const withKeys = accesses.filter(({ apiKeys }) => apiKeys !== undefined);
    if (withKeys.length === 0 || !carriesBearer(request)) return undefined;
    const token = bearerToken(request);
    if (token !== undefined) {
      const sent = sha256(token);
      // A client that guesses keys cannot choose their digests, so the time of the lookup reveals nothing about a key.
      const found = this.#keysOf(withKeys).get(sent);
      if (found !== undefined && equalInConstantTime(found.sha256, sent)) return found.known;
    }
    this.#parts.limits.countWrongToken(request);
    throw new GatewayError(
      "unauthorized",
      "The Bearer of this request is not a key of this API. Nothing was charged: to pay, send no Authorization header.",
      { headers: { "www-authenticate": "Bearer" } },
    );
  }

  /** Returns the keys by their digests. The map is made once for each configuration. */
  #keysOf(
    withKeys: readonly AccessConfig[],
  ): ReadonlyMap<string, { readonly sha256: string; readonly known: Known }> {
    const [first] = withKeys as [AccessConfig, ...AccessConfig[]];
    let keys = this.#keys.get(first);
    if (keys === undefined) {
      keys = new Map(
        withKeys.flatMap((access) =>
          ((access.apiKeys ?? []) as readonly ApiKey[]).map(
            ({ name, sha256 }) => [sha256, { sha256, known: { by: "key", name, access } }] as const,
          ),
        ),
      );
      this.#keys.set(first, keys);
    }
    return keys;
  }

  /** Finds the access of a client who signed in. */
  async #signedIn(request: HttpRequest, job: JobKey, api: ApiConfig): Promise<Known | undefined> {
    const { payerProof } = this.#parts;
    const asking = api.access.filter(asksWho);
    if (payerProof === undefined || asking.length === 0 || !payerProof.isIn(request)) return undefined;
    const proven = await payerProof.payerOf(request, this.#purposeOf(request));
    const listed = asking.find(({ signIn = [] }) => signIn.some((one) => oneSpelling(one) === proven.payer));
    // On another network, the contract at the account's address may belong to another account.
    if (listed !== undefined && proven.isByKey) return { by: "sign_in", name: proven.payer, access: listed };
    const ofPayers = asking.flatMap((access) =>
      access.paidWithinSecs === undefined ? [] : [{ access, withinMs: access.paidWithinSecs * 1_000 }],
    );
    if (ofPayers.length === 0) return undefined;
    const { checkout } = this.#parts;
    const body = await checkout.readBody(request, job);
    const requestHash = checkout.requestHashOf(request, job, body);
    for (const { access, withinMs } of ofPayers)
      if (await this.#hasPaid(proven, { job, requestHash, withinMs }))
        return { by: "payment", name: proven.payer, access, body };
    request.unreadBody(body);
    return undefined;
  }

  /** Checks that a payer bought this request, and that no money was sent back. */
  async #hasPaid(
    { payer, network, isByKey }: ProvenPayer,
    request: { readonly job: JobKey; readonly requestHash: string | undefined; readonly withinMs: number },
  ): Promise<boolean> {
    const { calls } = this.#parts;
    const { job, requestHash: bodyHash, withinMs } = request;
    if (bodyHash === undefined) return false;
    const { serviceId, jobIndex } = job;
    const bought = { payer, network: isByKey ? undefined : network, serviceId, jobIndex, bodyHash };
    for (const callId of await calls.listBought(bought, withinMs)) {
      const call = await calls.findCall(callId);
      if (call !== undefined && !call.additions?.some(({ givesBack }) => givesBack)) return true;
    }
    return false;
  }

  #purposeOf({ method, path }: HttpRequest): ProofPurpose {
    const url = `${this.#parts.publicUrl.replace(/\/$/, "")}${canonicalPath(path)}`;
    return {
      url,
      statement: `Sign in for ${method} without a payment.`,
      challengeOf: `the 402 of ${method} ${canonicalPath(path)}`,
    };
  }
}

/** Returns true for access by an account. */
export function asksWho({ signIn, paidWithinSecs }: AccessConfig): boolean {
  return signIn !== undefined || paidWithinSecs !== undefined;
}

function carriesBearer(request: HttpRequest): boolean {
  return request.headerValues("authorization").some((value) => /^bearer(?: |$)/i.test(value));
}

/** @param token text with one character for each byte that was sent */
function sha256(token: string): string {
  return createHash("sha256").update(token, "latin1").digest("hex");
}
