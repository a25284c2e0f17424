import { MAX_RESULT_BYTES, RESULT_CHUNK_BYTES } from "../core/job-call.ts";
import type {
  AckedLease,
  Charge,
  JobResult,
  Lease,
  LeaseOutcome,
  WorkQueue,
} from "../store/contract/work-queue.ts";

type StoredFields = Pick<JobResult, "body" | "storedBytes">;

/**
 * Collects a result of one delivery that arrives in pieces. A large result goes to the store in chunks while it
 * arrives. A small result stays in memory until the ack, which writes it.
 */
export class ResultWriter {
  readonly #queue: Pick<WorkQueue, "appendResult">;
  readonly #lease: Lease;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  #chunks = 0;
  #storedBytes = 0;

  constructor(queue: Pick<WorkQueue, "appendResult">, lease: Lease) {
    this.#queue = queue;
    this.#lease = lease;
  }

  /** Number of bytes written so far. */
  get size(): number {
    return this.#storedBytes + this.#waitingBytes;
  }

  /**
   * Adds bytes. Each write waits for the write before it.
   * @returns `done`, or the reason why the lease has ended
   * @throws GatewayError `store_unavailable`
   */
  async write(bytes: Uint8Array): Promise<LeaseOutcome> {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.byteLength;
    const isLarge = this.size > MAX_RESULT_BYTES && this.#waitingBytes >= RESULT_CHUNK_BYTES;
    return isLarge ? this.#store(RESULT_CHUNK_BYTES) : "done";
  }

  /** Stores the rest of a large result. @returns `stored`: fields of the result for the ack, unless the lease has ended */
  async end(): Promise<{ readonly outcome: LeaseOutcome; readonly stored: StoredFields | undefined }> {
    if (this.size <= MAX_RESULT_BYTES)
      return { outcome: "done", stored: { body: joined(this.#waiting), storedBytes: undefined } };
    const outcome = await this.#store(1);
    const stored = { body: new Uint8Array(), storedBytes: this.#storedBytes };
    return { outcome, stored: outcome === "done" ? stored : undefined };
  }

  /** Stores chunks while at least `least` bytes are not stored. */
  async #store(least: number): Promise<LeaseOutcome> {
    const bytes = joined(this.#waiting);
    let at = 0;
    while (bytes.byteLength - at >= least) {
      const chunk = bytes.subarray(at, at + RESULT_CHUNK_BYTES);
      const outcome = await this.#queue.appendResult(this.#lease, this.#chunks, chunk);
      if (outcome !== "done") return outcome;
      at += chunk.byteLength;
      this.#chunks += 1;
      this.#storedBytes += chunk.byteLength;
      this.#waitingBytes -= chunk.byteLength;
      this.#waiting = [bytes.subarray(at)];
    }
    return "done";
  }
}

/** Acks a lease with a result that is too large for one write. */
export async function ackLarge(
  queue: Pick<WorkQueue, "appendResult" | "ack">,
  lease: Lease,
  result: JobResult,
  charge: Charge | undefined,
): Promise<AckedLease> {
  const writer = new ResultWriter(queue, lease);
  await writer.write(result.body);
  const { outcome, stored } = await writer.end();
  return stored === undefined ? { outcome } : queue.ack(lease, { ...result, ...stored }, charge);
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const [only] = pieces;
  return pieces.length === 1 && only !== undefined ? only : Buffer.concat(pieces);
}
