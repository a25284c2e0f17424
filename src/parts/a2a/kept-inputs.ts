import { LRUCache } from "lru-cache";
import type { MessageInput } from "../../x402/protocols/message-request.ts";

/** Most bytes of inputs that are kept. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Memory that an input takes in addition to its bytes. */
const OVERHEAD = 1_024;

/** The request of a task, with the headers of its purchase. */
export interface TaskInput {
  readonly input: MessageInput;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Inputs of unpaid tasks, in the memory of this process, because an x402 payment over A2A does not repeat the input. The
 * oldest inputs are dropped first. A client that pays for a task whose input is gone has to resend the input.
 */
export class KeptInputs {
  readonly #inputs: LRUCache<string, TaskInput>;

  constructor(maxBytes = MAX_BYTES) {
    this.#inputs = new LRUCache({ maxSize: maxBytes, sizeCalculation: sizeOf });
  }

  keep(taskId: string, input: TaskInput): void {
    this.#inputs.set(taskId, input);
  }

  find(taskId: string): TaskInput | undefined {
    return this.#inputs.get(taskId);
  }

  forget(taskId: string): void {
    this.#inputs.delete(taskId);
  }
}

function sizeOf({ input, headers }: TaskInput): number {
  const texts = [input.path, input.query, ...Object.entries(headers).flat()];
  return OVERHEAD + input.body.byteLength + 2 * texts.reduce((sum, text) => sum + text.length, 0);
}
