import type { SettleResponse } from "@x402/core/types";
import { type GatewayError, refusalOf } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import type { HttpRequest } from "../../http/request.ts";
import { version } from "../../node/version.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import { tooManyWaits } from "../../x402/calls/wait-places.ts";
import { isFinished } from "../../x402/calls/watch.ts";
import type { MessageError, Meta } from "../../x402/doors/door.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import type { ToldSettlement, UnpaidRequest } from "../../x402/purchase/checkout.ts";
import { chargedNothing, purchaseRefusalOf } from "../../x402/purchase/job-route.ts";
import type { AcceptedPayment } from "../../x402/purchase/purchase.ts";
import type { Services } from "../../x402/services.ts";
import type { Shop } from "../../x402/shop.ts";
import { toRequirements } from "../../x402/wire/offer.ts";
import { callPath } from "../../x402/wire/paths.ts";
import { PaymentRefusal, paymentRequired } from "../../x402/wire/payment-required.ts";
import { RPC, RpcError, type RpcMessage, rpcError, rpcResult } from "./json-rpc.ts";
import { CALL, Outcomes, x402Meta } from "./outcomes.ts";
import { PARAMS, paramsAs } from "./params.ts";
import type { Session } from "./sessions.ts";
import { errorContent, stillRunning, taskOf } from "./tasks.ts";
import { ToolPayment, toolRequest } from "./tool-payment.ts";
import { inputOf, toolName, toTool } from "./tools.ts";

/** Newest first. */
export const PROTOCOL_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26"];

/** A job under the name by which it is called. It may be for sale no longer. */
type Tool = JobKey & Pick<ListedJob, "name">;

/** The HTTP request that carries a message, and the way back for its progress. */
export interface Context {
  readonly request: HttpRequest;
  readonly session: Session | undefined;
  readonly notify?: (notification: object) => void;
  /** Registers what is called once the whole answer to the request was sent. */
  readonly whenSent: (listener: () => Promise<void>) => void;
}

const TOOLS_PER_PAGE = 100;

/** Longest waits for the outcome of a call, in milliseconds. */
export const WAITS = {
  /** Wait of a tool call: clients give up after a minute. */
  toolMs: 50_000,
  /** Wait for the result of a task, and wait of a tool call that shows its progress. */
  longToolMs: 600_000,
};

/** The jobs for sale as tools of the Model Context Protocol. */
export class McpServer {
  readonly #services: Services;
  readonly #shop: Shop;
  readonly #waits: Readonly<typeof WAITS>;
  readonly #outcomes: Outcomes;

  constructor(parts: {
    readonly services: Services;
    readonly shop: Shop;
    readonly waits: Readonly<typeof WAITS>;
  }) {
    this.#services = parts.services;
    this.#shop = parts.shop;
    this.#waits = parts.waits;
    this.#outcomes = new Outcomes(parts.services, parts.shop, parts.waits.longToolMs);
  }

  /** Returns the response to a request. Never rejects: HTTP has begun to answer, perhaps. */
  async answer(message: RpcMessage, context: Context): Promise<object> {
    try {
      return rpcResult(message.id, await this.#resultOf(message, context));
    } catch (error) {
      if (error instanceof RpcError) return rpcError(message.id, error);
      const refusal = this.#logged(refusalOf(error), error, message, context);
      const { code, message: why, retryable, details, headers } = refusal;
      const number = code === "internal_error" ? RPC.internalError : RPC.refused;
      return rpcError(
        message.id,
        new RpcError(number, why, { code, retryable, ...retryAfter(headers), ...details }),
      );
    }
  }

  /** Logs the error that a refusal answers, unless it is the refusal itself. */
  #logged(refusal: GatewayError, error: unknown, { method }: RpcMessage, { request }: Context): GatewayError {
    if (refusal !== error)
      this.#services.logger.error({ err: error, request: request.id, method }, "request failed unexpectedly");
    return refusal;
  }

  /** @throws RpcError */
  #resultOf(message: RpcMessage, context: Context): unknown {
    switch (message.method) {
      case "initialize":
        return this.#initialize(message);
      case "ping":
        return {};
      case "tools/list":
        return this.#listTools(message);
      case "tools/call":
        return this.#callTool(message, context);
      case "tasks/get":
        return this.#findTask(message, context).then(({ taskId, call }) => taskOf(taskId, call));
      case "tasks/result":
        return this.#taskResult(message, context);
      default:
        throw new RpcError(RPC.methodNotFound, `There is no method ${message.method}.`);
    }
  }

  #initialize({ params }: RpcMessage): object {
    const { messageDoor, seller } = this.#shop;
    const { protocolVersion } = paramsAs(PARAMS.initialize, params);
    const wanted = PROTOCOL_VERSIONS.find((known) => known === protocolVersion);
    return {
      protocolVersion: wanted ?? PROTOCOL_VERSIONS[0],
      serverInfo: { name: seller.serviceName, title: seller.serviceName, version },
      capabilities: {
        tools: {},
        tasks: { requests: { tools: { call: {} } } },
        ...(messageDoor && { experimental: { payment: { methods: messageDoor.methods } } }),
      },
      instructions: `Each tool is a job that costs money. A call without a payment returns its offers; pay one in _meta.`,
    };
  }

  async #listTools({ params }: RpcMessage): Promise<object> {
    const start = Number(paramsAs(PARAMS.listTools, params).cursor ?? 0);
    const jobs = await this.#shop.listing.jobs();
    const end = start + TOOLS_PER_PAGE;
    return {
      tools: jobs.slice(start, end).map((job) => toTool(job, this.#shop.seller)),
      ...(end < jobs.length && { nextCursor: String(end) }),
    };
  }

  async #callTool(message: RpcMessage, context: Context): Promise<object> {
    const { checkout, messageDoor, listing } = this.#shop;
    const { places, tokens, store: calls } = this.#services;
    const { name, arguments: args = {}, task } = paramsAs(PARAMS.callTool, message.params);
    const listed = (await listing.jobs()).find((job) => toolName(job) === name);
    const payment = new ToolPayment(message.meta, messageDoor, this.#services.methods);
    let tool: Tool | undefined = listed;
    let bought: AcceptedPayment;
    try {
      // A reload may have removed the tool that the payment bought, or changed its input.
      const earlier = await checkout.findEarlier(context.request, payment);
      tool ??= earlier && { serviceId: earlier.serviceId, jobIndex: earlier.jobIndex, name };
      if (tool === undefined) throw new RpcError(RPC.invalidParams, `There is no tool ${name}.`);
      // Without its route, the arguments make no request that could be compared with the first one.
      const isOfGoneRoute =
        earlier?.boundHeaders !== undefined &&
        (listed === undefined || (listed.route === undefined && equalJobs(listed, earlier)));
      const first = isOfGoneRoute ? await checkout.findOutcome(context.request, payment) : undefined;
      if (first === undefined) {
        const { query } = context.request;
        const input = inputOf(args, tool, { tool: listed, earlierHash: earlier?.bodyHash, query });
        const request = toolRequest(context.request, message.meta, input);
        const sale = await checkout.buy(request, tool, payment);
        if (sale.kind === "unpaid") return await this.#askToPay(tool, sale.unpaid, context);
        bought = sale.payment;
      } else bought = first;
    } catch (error) {
      if (error instanceof RpcError || tool === undefined) throw error;
      const refusal = this.#logged(purchaseRefusalOf(error), error, message, context);
      this.#shop.refusals.add(refusal, { request: context.request, job: tool, door: payment });
      return this.#refuse(tool, payment, refusal);
    }
    const { callId } = bought;
    const { payer } = bought.payment;
    const meta = this.#boughtMeta(bought, payment, message.meta);
    const taskId = `${callId}.${tokens.tokenOf(bought.payment)}`;
    // The job is paid for: an error from here on must not look like a refusal.
    const unlessFailed = <Found>(found: Promise<Found>) =>
      found.catch((error: unknown) => void this.#logged(refusalOf(error), error, message, context));
    if (task !== undefined)
      return { task: taskOf(taskId, await unlessFailed(calls.findCall(callId))), _meta: meta };
    const leave = places.take({ callId, payer, session: context.session?.id });
    if (leave === undefined) return stillRunning(taskId, meta);
    const settledMeta = (settlement: SettleResponse) =>
      this.#settledMeta({ ...bought, settlement, replayed: true }, payment, message.meta);
    const waiting = { ...context, message, meta, settledMeta, maxMs: this.#waits.toolMs };
    return (
      (await unlessFailed(this.#outcomes.wait(callId, waiting).finally(leave))) ?? stillRunning(taskId, meta)
    );
  }

  #askToPay(job: Tool, unpaid: UnpaidRequest, { session }: Context): Promise<object> {
    this.#shop.refusals.count("payment_required", job);
    const refusal = paymentRequired(unpaid.offers);
    const demand = this.#shop.messageDoor?.askToPay(unpaid, refusal);
    if (demand && session?.expectsErrors) throw rpcErrorOf(demand.error);
    return this.#offersResult(job, refusal, demand?.meta);
  }

  #refuse(job: Tool, payment: ToolPayment, refusal: GatewayError): object | Promise<object> {
    const { code, message, details } = refusal;
    const error = payment.door?.refuse(refusal);
    if (error) throw rpcErrorOf(error);
    if (refusal instanceof PaymentRefusal)
      return this.#offersResult(job, refusal, this.#shop.messageDoor?.askToPay(refusal, refusal)?.meta);
    const { problem: _, ...more } = details;
    const { serviceId, jobIndex } = job;
    const ids = refusal.status === 403 ? { service_id: Number(serviceId), job_index: jobIndex } : {};
    const told = { error: message, code, ...chargedNothing(code), ...ids, ...more };
    return errorContent(told);
  }

  /** The answer to a call that must be paid: x402's, with what the other door for messages demands beside it. */
  async #offersResult(job: Tool, refusal: PaymentRefusal, demand: Meta | undefined): Promise<object> {
    const { code, message, offers, settled } = refusal;
    const { descriptions } = this.#shop;
    const { resource, extensions } = descriptions.withOffers(job, offers);
    const required = {
      x402Version: 2,
      error: message,
      resource: { ...resource, url: `mcp://tool/${toolName(job)}` },
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

  #settledMeta(told: ToldSettlement, { door }: ToolPayment, sent: Meta): Meta {
    return door ? door.acceptedMeta(sent, told) : x402Meta(told.settlement);
  }

  async #taskResult(message: RpcMessage, context: Context): Promise<object> {
    const { taskId, call } = await this.#findTask(message, context);
    const { places } = this.#services;
    const { callId, payment, state } = call;
    const waiter = { callId, payer: payment.payer, session: context.session?.id };
    const hasEnded = state === "failed" || isFinished(call);
    const leave = hasEnded ? () => {} : places.take(waiter);
    if (leave === undefined) throw tooManyWaits();
    const meta = { "io.modelcontextprotocol/related-task": { taskId } };
    const waiting = { ...context, message, meta, maxMs: this.#waits.longToolMs };
    const outcome = await this.#outcomes.wait(callId, waiting).finally(leave);
    if (outcome !== undefined) return outcome;
    throw new RpcError(RPC.refused, "The task is still running: ask for its result again.", {
      retryable: true,
    });
  }

  /** Finds the call that a task id names. Its token proves who bought it. @throws RpcError */
  async #findTask(
    { params }: RpcMessage,
    { request }: Context,
  ): Promise<{ taskId: string; call: CallState }> {
    const { store: calls, tokens, limits } = this.#services;
    const { taskId } = paramsAs(PARAMS.task, params);
    const [, id, token = ""] = /^([1-9][0-9]{0,15})\.([\w-]{43})$/.exec(taskId) ?? [];
    const call = id === undefined ? undefined : await calls.findCall(Number(id));
    if (call === undefined || call.state === "held" || !tokens.isTokenOf(token, call.payment)) {
      limits.countWrongToken(request);
      throw new RpcError(RPC.invalidParams, "There is no such task.");
    }
    return { taskId, call };
  }
}

/** Time after which a client may try again, which HTTP has in a header. */
function retryAfter(headers: GatewayError["headers"]): { retry_after_secs?: number } {
  const secs = headers["retry-after"];
  return secs === undefined ? {} : { retry_after_secs: Number(secs) };
}

function rpcErrorOf({ code, message, data }: MessageError): RpcError {
  return new RpcError(code, message, data);
}
