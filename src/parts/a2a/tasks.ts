import type { HttpRequest } from "../../http/request.ts";
import type { CallState } from "../../store/contract/call-lookup.ts";
import { RpcError } from "../../x402/protocols/json-rpc.ts";
import type { Services } from "../../x402/services.ts";
import { A2A_ERRORS, type Context, noTask } from "./context.ts";
import type { KeptInputs } from "./kept-inputs.ts";
import type { PaidTask, PaidTasks } from "./paid-tasks.ts";
import { X402 } from "./payments.ts";
import type { TaskLedger } from "./store/ledger.ts";
import { type Task, type TaskIds, UNPAID_MS } from "./task-ids.ts";
import type { TaskView } from "./task-view.ts";

/** A task and its state. `undecided`: it is not known yet whether its payment was settled. */
export type FoundTask = { readonly task: Task } & (
  | { readonly kind: "open" | "undecided" | "canceled" }
  | { readonly kind: "paid"; readonly call: CallState }
);

interface Parts {
  readonly services: Services;
  readonly ids: TaskIds;
  readonly ledger: TaskLedger;
  readonly inputs: KeptInputs;
  readonly paid: PaidTasks;
}

/** Tasks that clients query by ID. Anyone who has the ID of a task is treated as its buyer. */
export class Tasks {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** @throws RpcError for an ID that names no task @throws GatewayError `rate_limited`, `store_unavailable` */
  async find(id: string, request: HttpRequest): Promise<FoundTask> {
    const { services, ids, ledger } = this.#parts;
    const task = ids.read(id);
    if (task === undefined) {
      services.limits.countWrongToken(request);
      throw noTask();
    }
    const callId = await ledger.findTask(task.nonce.key);
    if (callId === 0) return { task, kind: "canceled" };
    if (callId === undefined) {
      if (!ids.isOpen(task)) throw noTask();
      return { task, kind: "open" };
    }
    const call = await services.store.findCall(callId);
    if (call === undefined || call.state === "expired") throw noTask();
    return call.state === "held" ? { task, kind: "undecided" } : { task, kind: "paid", call };
  }

  /** Assigns a JobCall to a task that has no JobCall. */
  add({ nonce }: Task, callId: number): Promise<void> {
    return this.#parts.ledger.addTask(nonce.key, callId, nonce.expiresAt);
  }

  /** Returns a task that is not open. */
  async view(found: FoundTask, context: Context): Promise<TaskView> {
    const { task } = found;
    if (found.kind === "paid") return this.#parts.paid.view(task, found.call, context);
    return found.kind === "undecided" ? undecided(task) : canceled(task);
  }

  /** Returns a task that was paid for. */
  paid(task: Task, call: CallState): PaidTask {
    const { callId, payment } = call;
    return { task, callId, payer: payment.payer, view: this.#parts.paid.goesOn(task, call) };
  }

  /** Cancels an unpaid task. @throws RpcError for any other task */
  async cancel(id: string, request: HttpRequest): Promise<TaskView> {
    const { services, inputs } = this.#parts;
    const found = await this.find(id, request);
    const { task } = found;
    if (found.kind === "open") {
      services.limits.countUnpaid(request);
      // A task whose nonce is used up can no longer be paid. The cancelled task is kept as long as it could have been paid.
      const expiresAt = Math.ceil((task.madeAt + 2 * UNPAID_MS) / 1000);
      if (!(await services.store.useNonce({ key: task.nonce.key, expiresAt })))
        return this.cancel(id, request);
      inputs.forget(task.id);
    } else if (found.kind !== "canceled") {
      throw new RpcError(
        A2A_ERRORS.taskNotCancelable,
        "The task is paid for and runs to its end: only a task that nothing has paid for can be cancelled.",
      );
    }
    return canceled(task);
  }
}

/** Shows a task whose payment is undecided. */
export function undecided(task: Task): TaskView {
  return {
    ...{ task, state: "working", at: task.madeAt, artifacts: [], metadata: undefined },
    text: "It is not known yet whether the payment was settled. If it was, the job runs once: ask for the task again, or send the same payment again.",
    payment: { [X402.status]: "payment-submitted" },
  };
}

function canceled(task: Task): TaskView {
  return {
    ...{ task, state: "canceled", at: task.madeAt, artifacts: [], metadata: undefined },
    text: "The task was cancelled before anything paid for it. Nothing was charged.",
    payment: { [X402.status]: "payment-rejected" },
  };
}
