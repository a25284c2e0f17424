import { GatewayError } from "../../core/errors.ts";
import type { Terms, TermsCheck } from "../../x402/purchase/terms.ts";
import type { Task } from "./task-ids.ts";

/**
 * Sales of tasks. A task is paid only once, because the payment uses up the task's nonce, by which the store finds the
 * task's JobCall.
 */
export class TaskSales implements Terms {
  /** Tasks that requests are buying, by the ID of the request. */
  readonly #buying = new Map<string, Task>();
  readonly checks: readonly TermsCheck[] = [
    {
      name: "task",
      before: "settlement",
      // The settlement refuses a second payment.
      refusals: [],
      run: ({ request }) => {
        const task = this.#buying.get(request.id);
        return task && { nonce: { nonce: task.nonce, refusal: taken } };
      },
    },
  ];

  /** Buys a task, with a request that buys nothing else. */
  async buy<Sale>(requestId: string, task: Task, buy: () => Promise<Sale>): Promise<Sale> {
    this.#buying.set(requestId, task);
    try {
      return await buy();
    } finally {
      this.#buying.delete(requestId);
    }
  }
}

function taken(): GatewayError {
  return new GatewayError(
    "payment_replay",
    "Another payment pays for this task, or it was cancelled. This payment was not used: nothing was charged.",
  );
}
