import type { X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import type { PaymentRecord } from "../../core/payment.ts";
import type { HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { CallLookup } from "../../store/contract/call-lookup.ts";
import type { OperatorLists } from "../../store/contract/operator-lists.ts";
import type { AccessTokens, ProvenPayer } from "../../x402/calls/access-tokens.ts";
import { describeCall } from "../../x402/calls/call-answer.ts";
import type { ClientLimits } from "../../x402/purchase/client-limits.ts";
import { callPath } from "../../x402/wire/paths.ts";
import type { SignIn } from "./sign-in.ts";

/** Payments that one page reads. */
const PAGE = 50;

interface Parts {
  readonly payments: Pick<OperatorLists, "listPayments">;
  readonly calls: Pick<CallLookup, "findCall">;
  readonly tokens: AccessTokens;
  readonly signIn: SignIn;
  readonly limits: Pick<ClientLimits, "countUnpaid">;
}

/** `GET /x402/calls`: lists a signed-in payer's calls, newest first. */
export class PayerCallsRoute {
  readonly #parts: Parts;
  readonly #publicUrl: string;

  constructor({ publicUrl, ...parts }: Parts & Pick<X402Config, "publicUrl">) {
    this.#parts = parts;
    this.#publicUrl = publicUrl;
  }

  /** @throws GatewayError `rate_limited`, `bad_request`, the refusals of {@link SignIn.payerOf}, `store_unavailable` */
  async answer(request: HttpRequest): Promise<HttpResponse> {
    const { payments, signIn, limits } = this.#parts;
    const before = beforeOf(request);
    if (!signIn.isIn(request)) {
      limits.countUnpaid(request);
      return signIn.challenge();
    }
    const signedIn = await signIn.payerOf(request);
    const page = await payments.listPayments({ payer: signedIn.payer, before, limit: PAGE });
    const calls = await Promise.all(page.items.map((payment) => this.#describe(payment, signedIn)));
    const next = page.next === undefined ? {} : { next: `${this.#path()}?before=${page.next}` };
    return jsonResponse(200, { calls: calls.filter((call) => call !== undefined), ...next });
  }

  /** Describes a call; undefined for a call on another network, and for an unpaid call. */
  async #describe(
    { callId, key, symbol, amount, transferMethod, createdAt }: PaymentRecord,
    { payer, network }: ProvenPayer,
  ): Promise<object | undefined> {
    if (key.payer !== payer || key.network !== network) return undefined;
    const call = await this.#parts.calls.findCall(callId);
    if (call === undefined || call.state === "held") return undefined;
    const { transaction = "" } = JSON.parse(call.settlement ?? "{}") as { transaction?: string };
    const self = callPath(this.#publicUrl, callId);
    return {
      ...describeCall(call),
      service_id: call.job.serviceId,
      job_index: call.job.jobIndex,
      payment: {
        ...{ network, asset: key.asset, symbol, amount, transfer_method: transferMethod },
        ...(transaction === "" ? {} : { transaction }),
        created_at: new Date(createdAt).toISOString(),
      },
      access_token: this.#parts.tokens.tokenOf(key),
      links: { self, result: `${self}/result`, events: `${self}/events` },
    };
  }

  #path(): string {
    return callPath(this.#publicUrl, 0).replace(/\/0$/, "");
  }
}

/** @throws GatewayError `bad_request` */
function beforeOf({ query }: HttpRequest): number | undefined {
  if (query === "") return undefined;
  const before = Number(/^before=([1-9][0-9]{0,15})$/.exec(query)?.[1]);
  if (Number.isSafeInteger(before)) return before;
  throw new GatewayError("bad_request", "Expected no query, or the query of `next` on the previous page.");
}
