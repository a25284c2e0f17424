import { once } from "node:events";
import type { ServiceError } from "@grpc/grpc-js";
import { AckMode, type JobCall, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { makeRunnerClient, type RunnerClient } from "./runner-client.ts";

const SUBSCRIBE_TIMEOUT_MS = 50_000;

/** A job's outcome: a result to be acked, or nothing for an empty ack. A thrown Fail makes a dead letter, an error a retry. */
export type JobHandler = (call: JobCall) => Promise<JobOutcome> | JobOutcome;
export type JobOutcome =
  | {
      readonly body: Uint8Array;
      readonly contentType?: string;
      /** HTTP status and headers that the client gets. */
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      /** Token units; default: the whole ceiling of a job that is metered. */
      readonly charge?: bigint;
    }
  | undefined;

/** A runner on a real connection. */
export interface Runner extends Pick<RunnerClient, "ack" | "nack" | "extend"> {
  /** JobCalls received, in order, repeated deliveries included. */
  readonly calls: readonly JobCall[];
  /** Call ids whose ack was answered "done", in order. */
  readonly done: readonly number[];
  /** Settles with the stream's end: undefined when closed by either side in order. */
  readonly ended: Promise<ServiceError | undefined>;
  /** Resolves with the calls once there are `count` of them. Throws if there are fewer after `timeoutMs`. */
  waitFor(count: number, timeoutMs?: number): Promise<readonly JobCall[]>;
  /** Stops and restarts reading from the stream. */
  pause(): void;
  resume(): void;
  /** Waits for acks under way, then ends the stream. */
  stop(): Promise<void>;
  /** Stops at once without acking. */
  kill(): void;
}

/** Subscribes, and resolves once jobgate has confirmed it. */
export async function startRunner(options: {
  /** `host:port`, or `unix:path`. */
  readonly address: string;
  readonly token?: string;
  readonly subscriber?: string;
  readonly maxInFlight?: number;
  readonly jobIds?: readonly bigint[];
  /** Default: acks each call at once. "leave" does nothing with calls. */
  readonly handle?: JobHandler | "leave";
  readonly ackMode?: AckMode;
  /** Gets each JobCall whose ack was answered "done". */
  readonly onDone?: (call: JobCall) => void;
}): Promise<Runner> {
  const { handle = () => undefined, ackMode = AckMode.EXPLICIT } = options;
  const client = makeRunnerClient(options);
  const calls: JobCall[] = [];
  const done: number[] = [];
  const underWay = new Set<Promise<void>>();
  const leave = ackMode === AckMode.ON_SEND || handle === "leave";
  const work = async (call: JobCall): Promise<void> => {
    const { callId, leaseToken } = call;
    try {
      const outcome = await (handle as JobHandler)(call);
      const { charge, status, headers = {}, ...result } = outcome ?? {};
      const amount = { case: "units", value: String(charge) } as const;
      const ack = {
        ...{ callId, leaseToken },
        ...(outcome === undefined ? {} : { result }),
        ...(status === undefined ? {} : { status }),
        headers: Object.entries(headers).map(([name, value]) => ({ name, value })),
        ...(charge === undefined ? {} : { charge: { amount } }),
      };
      const { statuses } = await client.ack({ acks: [ack] });
      if (statuses[0] !== LeaseStatus.DONE) return;
      done.push(Number(callId));
      options.onDone?.(call);
    } catch (error) {
      const value = { reason: String(error) };
      const outcome =
        error instanceof Fail ? ({ case: "fail", value } as const) : ({ case: "retry", value } as const);
      await client.nack({ nacks: [{ callId, leaseToken, outcome }] });
    }
  };

  const stream = client.subscribe({
    subscriber: options.subscriber ?? "test-runner",
    maxInFlight: options.maxInFlight ?? 0,
    jobIds: [...(options.jobIds ?? [])],
    ackMode,
  });
  const waiters = new Set<() => void>();
  stream.on("data", (call: JobCall) => {
    calls.push(call);
    for (const wake of waiters) wake();
    if (leave) return;
    // A call that can be neither acked nor nacked is delivered again after its lease.
    const working = work(call).catch(() => undefined);
    underWay.add(working);
    void working.finally(() => underWay.delete(working));
  });
  const ended = new Promise<ServiceError | undefined>((resolve) => {
    stream.once("error", (error: ServiceError) => resolve(error));
    stream.once("end", () => resolve(undefined));
  });
  const kill = (): void => {
    stream.cancel();
    client.close();
  };
  const refused = ended.then((error) => {
    throw error ?? new Error("the stream ended before it began");
  });
  await Promise.race([
    once(stream, "metadata", { signal: AbortSignal.timeout(SUBSCRIBE_TIMEOUT_MS) }),
    refused,
  ]).catch((error: unknown) => {
    kill();
    throw error;
  });

  return {
    calls,
    done,
    ended,
    async waitFor(count, timeoutMs = 50_000) {
      await new Promise<void>((resolve, reject) => {
        const settle = (finish: () => void): void => {
          clearTimeout(timer);
          waiters.delete(look);
          finish();
        };
        const look = (): void => {
          if (calls.length >= count) settle(resolve);
        };
        const timer = setTimeout(() => {
          const message = `${calls.length} of ${count} JobCalls arrived within ${timeoutMs} ms`;
          settle(() => reject(new Error(message)));
        }, timeoutMs);
        waiters.add(look);
        look();
      });
      return calls;
    },
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    ack: client.ack,
    nack: client.nack,
    extend: client.extend,
    async stop() {
      await Promise.all(underWay);
      kill();
      await ended;
    },
    kill,
  };
}
