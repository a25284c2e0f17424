import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { equalInConstantTime } from "../../core/constant-time.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { OneTimeNonce } from "../../core/payment.ts";
import type { AccessTokens } from "../../x402/calls/access-tokens.ts";

/** Time for which a task can be paid after it was begun. */
export const UNPAID_MS = 86_400_000;
/** Time for which a task that was paid for, or cancelled, is found. */
const KEPT_SECS = 366 * 86_400;
const RANDOM_BYTES = 12;

const ID =
  /^((?<random>[\w-]{16})\.(?<made>[0-9a-z]{1,9})\.(?<service>[0-9]{1,20})-(?<job>[0-9]{1,10})\.(?<input>[\w-]{43})\.(?<context>[\w-]{0,100}))\.(?<seal>[\w-]{43})$/;

/** A task: one run of a job for one input, in return for a payment. */
export interface Task {
  readonly id: string;
  readonly contextId: string;
  readonly job: JobKey;
  /** Hash of the request for the job. */
  readonly inputHash: string;
  /** Unix milliseconds. */
  readonly madeAt: number;
  /** The payment of the task uses up the nonce, so that a task is paid only once. */
  readonly nonce: OneTimeNonce;
}

/**
 * IDs of tasks. The ID of an unpaid task contains all facts about the task, under a seal. So nothing has to be stored for
 * it, and every replica can read it. Anyone who has the ID may read the task, and only the client that began the task gets
 * the ID.
 */
export class TaskIds {
  readonly #tokens: Pick<AccessTokens, "seal">;
  readonly #clock: Clock;

  constructor(tokens: Pick<AccessTokens, "seal">, clock: Clock) {
    this.#tokens = tokens;
    this.#clock = clock;
  }

  /** @param contextId context that the client names; undefined for a new context */
  make(job: JobKey, inputHash: string, contextId: string | undefined): Task {
    const random = randomBytes(RANDOM_BYTES).toString("base64url");
    const made = Math.floor(this.#clock() / 1000).toString(36);
    const context = contextId === undefined ? "" : Buffer.from(contextId).toString("base64url");
    const text = `${random}.${made}.${job.serviceId}-${job.jobIndex}.${inputHash}.${context}`;
    return this.read(`${text}.${this.#seal(text)}`) as Task;
  }

  /** Reads a task from its ID; undefined for an ID that was not made here. */
  read(id: string): Task | undefined {
    const match = ID.exec(id);
    if (match === null) return undefined;
    const [, text = ""] = match;
    const { random, made, service, job, input, context, seal } = match.groups as Record<string, string>;
    if (!equalInConstantTime(String(seal), this.#seal(text))) return undefined;
    const madeSecs = Number.parseInt(String(made), 36);
    return {
      id,
      contextId: context ? Buffer.from(context, "base64url").toString() : String(random),
      job: { serviceId: BigInt(String(service)), jobIndex: Number(job) },
      inputHash: String(input),
      madeAt: madeSecs * 1000,
      nonce: {
        // The store does not get the ID, because the ID gives access to the task.
        key: `a2a ${createHash("sha256").update(id).digest("hex")}`,
        expiresAt: madeSecs + KEPT_SECS,
      },
    };
  }

  /** Returns true if an unpaid task can still be paid. */
  isOpen({ madeAt }: Task): boolean {
    return this.#clock() - madeAt < UNPAID_MS;
  }

  #seal(text: string): string {
    return this.#tokens.seal(`a2a task\n${text}`);
  }
}
