import type { SettleResponse } from "@x402/core/types";
import { GatewayError, refusalOf } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { callName } from "../../x402/jobs/seller.ts";
import { paramsAs, RPC, RpcError } from "../../x402/protocols/json-rpc.ts";
import { headersIn, messageRequest } from "../../x402/protocols/message-request.ts";
import type { MessageError, Meta } from "../../x402/protocols/protocol.ts";
import type { Checkout, SettlementSummary, UnpaidRequest } from "../../x402/purchase/checkout.ts";
import { chargedNothing, purchaseRefusalOf } from "../../x402/purchase/job-route.ts";
import type { AcceptedPayment } from "../../x402/purchase/purchase.ts";
import { PaymentRefusal, paymentRequired } from "../../x402/purchase/refused-payments.ts";
import type { Services } from "../../x402/services.ts";
import type { PurchaseIdentity } from "../../x402/settlement/payment-outcome.ts";
import type { Shop } from "../../x402/shop.ts";
import { toRequirements } from "../../x402/wire/offer.ts";
import { callPath } from "../../x402/wire/paths.ts";
import { type Context, logUnexpected } from "./context.ts";
import { CALL, type Outcomes, x402Meta } from "./outcomes.ts";
import { PARAMS } from "./params.ts";
import { errorContent, statelessTask, stillRunning, taskOf } from "./tasks.ts";
import { ToolPayment } from "./tool-payment.ts";
import type { ToolSales } from "./tool-sales.ts";
import { inputOf, requireBody } from "./tools.ts";

/** A job, with the name by which it is called. It may no longer be for sale. */
type Tool = JobKey & Pick<ListedJob, "name">;

type Sale = Awaited<ReturnType<Checkout["buy"]>>;

/** A tool, and the call that buys it. */
interface BoughtTool {
  readonly name: string;
  readonly args: unknown;
  readonly payment: ToolPayment;
  readonly tool: Tool;
  /** The tool, if it is for sale now. */
  readonly listed: ListedJob | undefined;
  /** The earlier purchase of the payment. */
  readonly earlier: PurchaseIdentity | undefined;
}

/** Calls of tools: each buys a job. */
export class ToolCalls {
  readonly #services: Services;
  readonly #shop: Shop;
  readonly #sales: ToolSales;
  readonly #outcomes: Outcomes;
  readonly #maxMs: number;

  /** @param maxMs longest wait for a result */
  constructor(parts: {
    readonly services: Services;
    readonly shop: Shop;
    readonly sales: ToolSales;
    readonly outcomes: Outcomes;
    readonly maxMs: number;
  }) {
    this.#services = parts.services;
    this.#shop = parts.shop;
    this.#sales = parts.sales;
    this.#outcomes = parts.outcomes;
    this.#maxMs = parts.maxMs;
  }

  /** @throws RpcError */
  async call(context: Context): Promise<object> {
    const { message } = context;
    const { checkout, messageProtocol, listing } = this.#shop;
    const { places, tokens, store: calls } = this.#services;
    const { name, arguments: args = {}, task } = paramsAs(PARAMS.callTool, message.exactParams);
    const listed = (await listing.jobs()).find((job) => callName(job) === name);
    const payment = new ToolPayment(message.meta, messageProtocol, this.#services.methods);
    let tool: Tool | undefined = listed;
    let bought: AcceptedPayment;
    try {
      // A reload may have removed the tool that the payment bought, or changed its input.
      const earlier = await checkout.findEarlier(context.request, payment);
      const of = { name, args, payment, listed, earlier };
      const isUnknown = tool === undefined && earlier === undefined;
      const bound = isUnknown ? await this.#findBound(of, context) : undefined;
      tool ??= bound && { ...bound.job, name };
      tool ??= earlier && { serviceId: earlier.serviceId, jobIndex: earlier.jobIndex, name };
      if (tool === undefined) throw new RpcError(RPC.invalidParams, `There is no tool ${name}.`);
      const sale = bound ?? (await this.#buy({ ...of, tool }, context));
      if (sale.kind === "unpaid") return await this.#paymentRequired(tool, sale.unpaid, context);
      bought = sale.payment;
    } catch (error) {
      if (error instanceof RpcError || tool === undefined) throw error;
      const refusal = logUnexpected(purchaseRefusalOf(error), error, context, this.#services);
      this.#shop.refusals.add(refusal, { request: context.request, job: tool, protocol: payment });
      return this.#refuse(tool, payment, refusal, context);
    }
    const { callId } = bought;
    const { payer } = bought.payment;
    const meta = this.#boughtMeta(bought, payment, message.meta);
    const taskId = `${callId}.${tokens.tokenOf(bought.payment)}`;
    // The job is paid for, so an error from here on must not look like a refusal.
    const unlessFailed = <Found>(found: Promise<Found>) =>
      found.catch((error: unknown) => void logUnexpected(refusalOf(error), error, context, this.#services));
    if (task !== undefined && context.client === undefined)
      return { task: taskOf(taskId, await unlessFailed(calls.findCall(callId))), _meta: meta };
    const goesOn = async () =>
      context.client?.takesTasks
        ? {
            resultType: "task",
            ...statelessTask(taskId, await unlessFailed(calls.findCall(callId))),
            _meta: meta,
          }
        : stillRunning(taskId, meta);
    const leave = places.take({ callId, payer, session: context.session?.id });
    if (leave === undefined) return goesOn();
    const settledMeta = (settlement: SettleResponse) =>
      this.#settledMeta({ ...bought, settlement, replayed: true }, payment, message.meta);
    const waiting = { ...context, meta, settledMeta, maxMs: this.#maxMs };
    return (await unlessFailed(this.#outcomes.wait(callId, waiting).finally(leave))) ?? goesOn();
  }

  /** @throws RpcError @throws GatewayError */
  async #buy({ name, args, payment, tool, listed, earlier }: BoughtTool, context: Context): Promise<Sale> {
    const { checkout } = this.#shop;
    const { message, request } = context;
    const call = { name, args, meta: message.meta };
    const likeFirst = earlier && this.#sales.compare(call, earlier, listed);
    const first = async (): Promise<Sale | undefined> => {
      const outcome = await checkout.findOutcome(request, payment);
      return outcome && { kind: "bought", payment: outcome };
    };
    // Without the route, no request can be built from the arguments and compared with the first request.
    const isOfGoneRoute =
      earlier?.boundHeaders !== undefined &&
      (listed === undefined || (listed.route === undefined && equalJobs(listed, earlier)));
    const found = isOfGoneRoute && likeFirst !== "other arguments" ? await first() : undefined;
    if (found !== undefined) return found;
    const of = { tool: listed, earlierHash: earlier?.bodyHash, query: request.query };
    try {
      const made = await checkout.requestOf(request, payment, () => {
        if (likeFirst === "other arguments")
          throw new RpcError(RPC.invalidParams, "The payment bought a call with other arguments.");
        const input = inputOf(args, tool, of);
        if (earlier === undefined && listed !== undefined && payment.carriesPayment())
          requireBody(args, listed);
        return messageRequest(request, headersIn(message.meta, "_meta"), input);
      });
      return await this.#sales.buy(request.id, call, () => checkout.buy(made, tool, payment));
    } catch (error) {
      // A reload may have changed which request the arguments make.
      const isReplay = error instanceof GatewayError && error.code === "payment_replay";
      let again: Sale | undefined;
      if (earlier === undefined) again = await this.#findBound({ name, args, payment, listed }, context);
      else if (isReplay && likeFirst === "same") again = await first();
      if (again === undefined) throw error;
      return again;
    }
  }

  /** Finds the first outcome of a payment that its method binds to its request, for the same call. */
  async #findBound(
    { name, args, payment, listed }: Pick<BoughtTool, "name" | "args" | "payment" | "listed">,
    { request, message: { meta } }: Context,
  ): Promise<(Sale & { readonly job: JobKey }) | undefined> {
    const found = await this.#shop.checkout.findBound(
      request,
      payment,
      (known) => this.#sales.compare({ name, args, meta }, known, listed) === "same",
    );
    return found && { kind: "bought", ...found };
  }

  #paymentRequired(job: Tool, unpaid: UnpaidRequest, { session }: Context): Promise<object> {
    this.#shop.refusals.count("payment_required", job);
    const refusal = paymentRequired(unpaid.offers);
    const demand = this.#shop.messageProtocol?.paymentRequired(unpaid, refusal);
    if (demand && session?.expectsErrors) throw rpcErrorOf(demand.error);
    return this.#offersResult(job, refusal, demand?.meta);
  }

  #refuse(
    job: Tool,
    payment: ToolPayment,
    refusal: GatewayError,
    { client }: Context,
  ): object | Promise<object> {
    const { code, message, details } = refusal;
    const error = payment.protocol?.refuse(refusal);
    // The version of MCP without sessions reserves the error codes that other protocols use for refusals.
    if (error && (client === undefined || error.code === RPC.invalidParams)) throw rpcErrorOf(error);
    if (refusal instanceof PaymentRefusal)
      return this.#offersResult(
        job,
        refusal,
        this.#shop.messageProtocol?.paymentRequired(refusal, refusal)?.meta,
      );
    const { problem: _, ...more } = details;
    const { serviceId, jobIndex } = job;
    const ids = refusal.status === 403 ? { service_id: Number(serviceId), job_index: jobIndex } : {};
    const told = { error: message, code, ...chargedNothing(code), ...ids, ...more };
    return errorContent(told);
  }

  /** The answer to a call that must be paid: x402's offers, with the demands of the other message protocol. */
  async #offersResult(job: Tool, refusal: PaymentRefusal, demand: Meta | undefined): Promise<object> {
    const { code, message, offers, settled } = refusal;
    const { descriptions } = this.#shop;
    const { resource, extensions } = descriptions.withOffers(job, offers);
    const required = {
      x402Version: 2,
      error: message,
      resource: { ...resource, url: `mcp://tool/${callName(job)}` },
      accepts: offers.map(toRequirements),
      extensions: { ...extensions, ...(await this.#shop.extensions.ofOffers(offers)) },
      code,
      ...chargedNothing(code),
    };
    const meta = {
      ...demand,
      ...(settled && { "x402/payment-response": settled.settlement }),
    };
    return { ...errorContent(required), _meta: meta };
  }

  #boughtMeta(bought: AcceptedPayment, payment: ToolPayment, sent: Meta): Meta {
    const { tokens } = this.#services;
    const path = callPath(this.#shop.seller.publicUrl, bought.callId);
    return {
      ...this.#settledMeta(bought, payment, sent),
      [CALL]: {
        call_id: bought.callId,
        ...(bought.settlement === undefined && { payment: "authorized" }),
        receipt: bought.receipt,
        access_token: tokens.tokenOf(bought.payment),
        links: { self: path, result: `${path}/result`, events: `${path}/events` },
      },
    };
  }

  #settledMeta(summary: SettlementSummary, { protocol }: ToolPayment, sent: Meta): Meta {
    return protocol ? protocol.acceptedMeta(sent, summary) : x402Meta(summary.settlement);
  }
}

function rpcErrorOf({ code, message, data }: MessageError): RpcError {
  return new RpcError(code, message, data);
}
