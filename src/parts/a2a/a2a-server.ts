import { GatewayError } from "../../core/errors.ts";
import { tooManyWaits } from "../../x402/calls/wait-places.ts";
import {
  paramsAs,
  RPC,
  RpcError,
  type RpcMessage,
  refusalError,
  rpcError,
  rpcResult,
} from "../../x402/protocols/json-rpc.ts";
import { chargedNothing, purchaseRefusalOf } from "../../x402/purchase/job-route.ts";
import type { Services } from "../../x402/services.ts";
import { A2A_ERRORS, type Context, logUnexpected } from "./context.ts";
import { hasEnded, type PaidTask, type PaidTasks } from "./paid-tasks.ts";
import { PARAMS } from "./params.ts";
import { X402 } from "./payments.ts";
import type { Purchases, Sent } from "./purchases.ts";
import { type TaskView, WIRE_03, WIRE_10, type Wire } from "./task-view.ts";
import type { Tasks } from "./tasks.ts";

/** Longest wait of a request for the end of a task, in milliseconds: clients give up after a minute. */
export const MAX_WAIT_MS = 50_000;
/** Silence after which a comment keeps proxies from closing a stream. */
const HEARTBEAT_MS = 15_000;

interface Parts {
  readonly services: Services;
  readonly purchases: Purchases;
  readonly tasks: Tasks;
  readonly paid: PaidTasks;
  readonly maxWaitMs: number;
}

/** Results of a stream. Undefined becomes a comment that keeps the stream open. */
type Results = AsyncGenerator<object | undefined, void>;

type Answer = (context: Context) => Promise<object>;
type Stream = (context: Context) => Promise<Results>;

/** Method of A2A, with the version of A2A that has this name for the method. */
export type Method = { readonly wire: Wire } & ({ readonly answer: Answer } | { readonly stream: Stream });

/** The methods of A2A, by the names of both versions. */
export class A2aServer {
  readonly #parts: Parts;
  readonly #methods: ReadonlyMap<string, Method>;

  constructor(parts: Parts) {
    this.#parts = parts;
    const send: Answer = (context) => this.#send(context);
    const stream: Stream = (context) => this.#stream(context);
    const get: Answer = (context) => this.#get(context);
    const cancel: Answer = (context) => this.#cancel(context);
    const follow: Stream = (context) => this.#subscribe(context);
    const push = refused(
      A2A_ERRORS.pushNotSupported,
      "Push notifications are not supported: read the task, or stream it.",
    );
    const list = refused(
      A2A_ERRORS.unsupportedOperation,
      "Tasks are not listed, because anyone who has the ID of a task can read it.",
    );
    const card = refused(
      A2A_ERRORS.noExtendedCard,
      "There is no extended agent card: the public one is complete.",
    );
    this.#methods = new Map<string, Method>([
      ...inVersion(WIRE_03, {
        "message/send": { answer: send },
        "message/stream": { stream },
        "tasks/get": { answer: get },
        "tasks/cancel": { answer: cancel },
        "tasks/resubscribe": { stream: follow },
        "tasks/list": { answer: list },
        "tasks/pushNotificationConfig/set": { answer: push },
        "tasks/pushNotificationConfig/get": { answer: push },
        "tasks/pushNotificationConfig/list": { answer: push },
        "tasks/pushNotificationConfig/delete": { answer: push },
        "agent/getAuthenticatedExtendedCard": { answer: card },
      }),
      ...inVersion(WIRE_10, {
        SendMessage: { answer: send },
        SendStreamingMessage: { stream },
        GetTask: { answer: get },
        CancelTask: { answer: cancel },
        SubscribeToTask: { stream: follow },
        ListTasks: { answer: list },
        CreateTaskPushNotificationConfig: { answer: push },
        GetTaskPushNotificationConfig: { answer: push },
        ListTaskPushNotificationConfigs: { answer: push },
        DeleteTaskPushNotificationConfig: { answer: push },
        GetExtendedAgentCard: { answer: card },
      }),
    ]);
  }

  /** @throws RpcError */
  method({ method }: RpcMessage): Method {
    const found = this.#methods.get(method);
    if (found !== undefined) return found;
    throw new RpcError(
      RPC.methodNotFound,
      `There is no method ${JSON.stringify(method)}; expected one of ${[...this.#methods.keys()].join(", ")}.`,
    );
  }

  /** Returns the response to a request. Never rejects. */
  async answer(answer: Answer, context: Context): Promise<object> {
    try {
      return rpcResult(context.message.id, await answer(context));
    } catch (error) {
      return this.#failure(error, context);
    }
  }

  /** Begins a stream. @returns its responses, or the response to a request that is refused */
  async begin(
    stream: Stream,
    context: Context,
  ): Promise<{ readonly responses: Results } | { readonly refusal: object }> {
    try {
      return { responses: this.#responses(await stream(context), context) };
    } catch (error) {
      return { refusal: this.#failure(error, context) };
    }
  }

  async *#responses(results: Results, context: Context): Results {
    const { id } = context.message;
    try {
      for await (const result of results) yield result && rpcResult(id, result);
    } catch (error) {
      yield this.#failure(error, context);
    }
  }

  #failure(error: unknown, context: Context): object {
    const { id } = context.message;
    logUnexpected(error, context, this.#parts.services);
    if (error instanceof RpcError) return rpcError(id, error);
    const { code, message, details, ...more } = purchaseRefusalOf(error);
    // A repeated payment may already have been charged, and so may the payment of a task.
    const charged = isFirstMessage(context) ? {} : { charged: "unknown" };
    const told = { ...more, details: { ...chargedNothing(code), ...details, ...charged } };
    return rpcError(id, refusalError(new GatewayError(code, message, told)));
  }

  async #send(context: Context): Promise<object> {
    const { paid, maxWaitMs } = this.#parts;
    const { wire, message } = context;
    const { configuration } = paramsAs(PARAMS.message, message.params);
    const waits = configuration?.blocking !== false && configuration?.returnImmediately !== true;
    const sent = await this.#parts.purchases.send(context);
    if (sent.kind === "shown") return wire.begun(sent.view);
    const { task, callId, payer } = sent;
    const leave = waits ? this.#parts.services.places.take({ callId, payer }) : undefined;
    const ended =
      leave === undefined
        ? this.#now(sent, context)
        : paid.wait(task, callId, context, maxWaitMs).finally(leave);
    return wire.begun((await this.#unlessFailed(ended, context)) ?? sent.view);
  }

  async #stream(context: Context): Promise<Results> {
    const sent = await this.#parts.purchases.send(context);
    // A message that has just paid is never refused.
    const states = sent.kind === "paid" ? this.#follow(context, sent) : undefined;
    return states ?? one(context.wire.begun(sent.view));
  }

  async #get(context: Context): Promise<object> {
    const { tasks, purchases } = this.#parts;
    const { id } = paramsAs(PARAMS.task, context.message.params);
    const found = await tasks.find(id, context.request);
    const view =
      found.kind === "open" ? await purchases.show(context, found.task) : await tasks.view(found, context);
    return context.wire.task(view);
  }

  async #cancel({ message, request, wire }: Context): Promise<object> {
    const { id } = paramsAs(PARAMS.task, message.params);
    return wire.task(await this.#parts.tasks.cancel(id, request));
  }

  async #subscribe(context: Context): Promise<Results> {
    const { tasks, purchases } = this.#parts;
    const { id } = paramsAs(PARAMS.task, context.message.params);
    const found = await tasks.find(id, context.request);
    if (found.kind === "paid") {
      const states = this.#follow(context, tasks.paid(found.task, found.call));
      if (states === undefined) throw tooManyWaits();
      return states;
    }
    const view =
      found.kind === "open" ? await purchases.show(context, found.task) : await tasks.view(found, context);
    return one(context.wire.begun(view));
  }

  /** Takes a place for the stream of a paid task. @returns undefined if no place is left */
  #follow(context: Context, of: PaidTask): Results | undefined {
    const { callId, payer } = of;
    const leave = this.#parts.services.places.take({ callId, payer });
    return leave && this.#states(context, of, leave);
  }

  /** Yields a paid task, its progress, its result, and its end. */
  async *#states(context: Context, { task, callId, view: begun }: PaidTask, leave: () => void): Results {
    const { paid, services } = this.#parts;
    const { wire, request } = context;
    let told = begun;
    let quietSince = services.elapsed();
    try {
      yield wire.begun(begun);
      for await (const call of services.watch.states(callId, request.closed)) {
        if (hasEnded(call)) {
          const view = await paid.view(task, call, context);
          for (const artifact of view.artifacts) yield wire.artifact(view, artifact);
          yield wire.status(view, true);
          return;
        }
        const view = paid.goesOn(task, call);
        const isNews = JSON.stringify(view.payment) !== JSON.stringify(told.payment);
        if (isNews) yield wire.status(view, false);
        else if (services.elapsed() - quietSince >= HEARTBEAT_MS) yield undefined;
        else continue;
        told = view;
        quietSince = services.elapsed();
      }
    } finally {
      leave();
    }
  }

  async #now({ task, call }: Sent & { kind: "paid" }, context: Context): Promise<TaskView | undefined> {
    return call && this.#parts.paid.view(task, call, context);
  }

  #unlessFailed<Found>(found: Promise<Found>, context: Context): Promise<Found | undefined> {
    return found.catch((error: unknown) => void logUnexpected(error, context, this.#parts.services));
  }
}

function inVersion(
  wire: Wire,
  methods: Readonly<Record<string, { readonly answer: Answer } | { readonly stream: Stream }>>,
): [string, Method][] {
  return Object.entries(methods).map(([name, method]) => [name, { wire, ...method }]);
}

function refused(code: number, message: string): Answer {
  return async () => {
    throw new RpcError(code, message);
  };
}

/** Reports whether a message begins a task, without a payment. */
function isFirstMessage({ message: { params } }: Context): boolean {
  const parsed = PARAMS.message.safeParse(params);
  if (!parsed.success) return false;
  const { taskId, metadata } = parsed.data.message;
  return taskId === undefined && metadata[X402.payload] === undefined;
}

async function* one(result: object): Results {
  yield result;
}
