import type { CallState } from "../../store/contract/call-lookup.ts";
import { tooManyWaits } from "../../x402/calls/wait-places.ts";
import { paramsAs, RPC, RpcError } from "../../x402/protocols/json-rpc.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";
import type { Services } from "../../x402/services.ts";
import type { Context } from "./context.ts";
import type { Outcomes } from "./outcomes.ts";
import { PARAMS } from "./params.ts";
import { hasEnded, statelessTask, taskOf } from "./tasks.ts";

/** Calls whose outcome buyers query later, as tasks. */
export class CallTasks {
  readonly #services: Services;
  readonly #outcomes: Outcomes;
  readonly #maxMs: number;

  /** @param maxMs longest wait for a result */
  constructor(services: Services, outcomes: Outcomes, maxMs: number) {
    this.#services = services;
    this.#outcomes = outcomes;
    this.#maxMs = maxMs;
  }

  /**
   * Returns the task. In the version without sessions, the task includes its outcome once there is an outcome.
   * @throws RpcError
   */
  async get(context: Context): Promise<object> {
    const { taskId, call } = await this.#find(context);
    if (context.client === undefined) return taskOf(taskId, call);
    const task = statelessTask(taskId, call);
    if (!hasEnded(call)) return task;
    return { ...task, result: await this.#outcomeOf(call, context, {}) };
  }

  /** Waits for the outcome of a task. @throws RpcError */
  async result(context: Context): Promise<object> {
    const { taskId, call } = await this.#find(context);
    const meta = { "io.modelcontextprotocol/related-task": { taskId } };
    const outcome = await this.#outcomeOf(call, context, meta);
    if (outcome !== undefined) return outcome;
    throw new RpcError(RPC.refused, "The task is still running: ask for its result again.", {
      retryable: true,
    });
  }

  #outcomeOf(call: CallState, context: Context, meta: Meta): Promise<object | undefined> {
    const { callId, payment } = call;
    const waiter = { callId, payer: payment.payer, session: context.session?.id };
    const leave = hasEnded(call) ? () => {} : this.#services.places.take(waiter);
    if (leave === undefined) throw tooManyWaits();
    const waiting = { ...context, meta, maxMs: this.#maxMs };
    return this.#outcomes.wait(callId, waiting).finally(leave);
  }

  /** Finds the call that a task id names. Its token authenticates the buyer. @throws RpcError */
  async #find({ message, request }: Context): Promise<{ taskId: string; call: CallState }> {
    const { store: calls, tokens, limits } = this.#services;
    const { taskId } = paramsAs(PARAMS.task, message.params);
    const [, id, token = ""] = /^([1-9][0-9]{0,15})\.([\w-]{43})$/.exec(taskId) ?? [];
    const call = id === undefined ? undefined : await calls.findCall(Number(id));
    if (call === undefined || call.state === "held" || !tokens.isTokenOf(token, call.payment)) {
      limits.countWrongToken(request);
      throw new RpcError(RPC.invalidParams, "There is no such task.");
    }
    return { taskId, call };
  }
}
