import { create } from "@bufbuild/protobuf";
import {
  type handleUnaryCall,
  Metadata,
  type ServerWritableStream,
  type StatusObject,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { Logger } from "pino";
import { GatewayError } from "../core/errors.ts";
import {
  type AckRequest,
  type AckResponse,
  AckResponseSchema,
  type ExtendRequest,
  type ExtendResponse,
  ExtendResponseSchema,
  LeaseStatus,
  type NackRequest,
  type NackResponse,
  NackResponseSchema,
  type SubscribeRequest,
} from "../gen/jobgate/v1/runner_pb.ts";
import type { Lease, LeaseOutcome, RetryBackoff } from "../store/contract/work-queue.ts";
import type { Dispatcher } from "./dispatcher.ts";
import {
  InvalidRequestError,
  readExtendMs,
  readLeases,
  readNackOutcome,
  readProgress,
  readResult,
  readSubscribe,
} from "./runner-requests.ts";

export interface RunnerServiceOptions {
  readonly dispatcher: Dispatcher;
  /** Of an Extend that does not say how long. */
  readonly leaseMs: number;
  readonly maxAttempts: number;
  /** Of a retry that does not say when. */
  readonly backoff: RetryBackoff;
  readonly logger: Logger;
}

const LEASE_STATUS: Readonly<Record<LeaseOutcome, LeaseStatus>> = {
  done: LeaseStatus.DONE,
  lease_lost: LeaseStatus.LEASE_LOST,
  not_found: LeaseStatus.NOT_FOUND,
};

const shuttingDown = () => new GatewayError("shutting_down", "jobgate is shutting down: subscribe again");

/** The handlers of `jobgate.v1.RunnerService`. */
export function createRunnerService(options: RunnerServiceOptions): UntypedServiceImplementation {
  const { dispatcher, leaseMs, maxAttempts, backoff, logger } = options;

  function subscribe(call: ServerWritableStream<SubscribeRequest, Buffer>): void {
    try {
      const settings = readSubscribe(call.request, call.getPeer());
      const log = logger.child({ subscriber: settings.subscriber });
      const sink = {
        write: (encoded: Buffer, onWritten: () => void) => call.write(encoded, () => onWritten()),
        endForShutdown: () => void call.emit("error", grpcStatus(shuttingDown(), logger)),
      };
      const stream = dispatcher.subscribe({ ...settings, sink });
      if (stream === undefined) throw shuttingDown();
      // At once, not with the first JobCall, so that an idle runner knows that it is connected.
      call.sendMetadata(new Metadata());
      log.info(
        { maxInFlight: settings.maxInFlight, jobIds: settings.jobIds.map(String) },
        "Runner subscribed",
      );
      call.on("drain", () => stream.drained());
      // Also what a stream says that ended in any other way.
      call.on("cancelled", () => {
        stream.ended();
        log.info("Runner's stream ended");
      });
    } catch (error) {
      call.emit("error", grpcStatus(error, logger));
    }
  }

  /** @returns one status for each lease, in order. Each is asked for on its own: one that is lost harms no other. */
  async function statuses(
    requested: readonly { callId: bigint; leaseToken: string }[],
    ask: (lease: Lease, index: number) => Promise<LeaseOutcome>,
  ): Promise<LeaseStatus[]> {
    const outcomes = await Promise.allSettled(
      readLeases(requested).map(async (lease, index) => (lease ? ask(lease, index) : "not_found")),
    );
    return outcomes.map((outcome) => {
      if (outcome.status === "rejected") throw outcome.reason;
      return LEASE_STATUS[outcome.value];
    });
  }

  async function ack({ acks }: AckRequest): Promise<AckResponse> {
    // All are read before the first is asked for: a bad one refuses the request and keeps every lease.
    const results = acks.map(readResult);
    return create(AckResponseSchema, {
      statuses: await statuses(acks, (lease, index) => dispatcher.ack(lease, results[index])),
    });
  }

  async function nack({ nacks }: NackRequest): Promise<NackResponse> {
    const outcomes = nacks.map(readNackOutcome);
    return create(NackResponseSchema, {
      statuses: await statuses(nacks, (lease, index) => {
        const outcome = outcomes[index];
        if (outcome?.kind === "fail") return dispatcher.fail(lease, outcome.reason);
        const { delayMs, reason = "" } = outcome ?? {};
        return dispatcher.retry(lease, {
          ...(delayMs !== undefined && { delayMs }),
          backoff,
          maxAttempts,
          reason,
        });
      }),
    });
  }

  async function extend(request: ExtendRequest): Promise<ExtendResponse> {
    const extendMs = readExtendMs(request, leaseMs);
    const progress = request.leases.map(readProgress);
    return create(ExtendResponseSchema, {
      statuses: await statuses(request.leases, (lease, index) =>
        dispatcher.extend(lease, extendMs, progress[index]),
      ),
    });
  }

  function unary<Request, Response>(
    answer: (request: Request) => Promise<Response>,
  ): handleUnaryCall<Request, Response> {
    return (call, callback) => {
      answer(call.request).then(
        (response) => callback(null, response),
        (error: unknown) => callback(grpcStatus(error, logger)),
      );
    };
  }

  return { subscribe, ack: unary(ack), nack: unary(nack), extend: unary(extend) };
}

function grpcStatus(error: unknown, logger: Logger): Pick<StatusObject, "code" | "details"> {
  if (error instanceof InvalidRequestError) return { code: status.INVALID_ARGUMENT, details: error.message };
  if (error instanceof GatewayError && error.retryable)
    return { code: status.UNAVAILABLE, details: error.message };
  logger.error({ err: error }, "A runner's request failed");
  return { code: status.INTERNAL, details: "Something went wrong inside jobgate: its log says what." };
}
