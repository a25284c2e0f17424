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

const LEASE_STATUS: Readonly<Record<LeaseOutcome, LeaseStatus>> = {
  done: LeaseStatus.DONE,
  lease_lost: LeaseStatus.LEASE_LOST,
  not_found: LeaseStatus.NOT_FOUND,
};

/** Serves `jobgate.v1.RunnerService`. */
export class RunnerServiceHandlers {
  readonly #dispatcher: Dispatcher;
  readonly #leaseMs: number;
  readonly #maxAttempts: number;
  readonly #backoff: RetryBackoff;
  readonly #logger: Logger;

  constructor(options: {
    readonly dispatcher: Dispatcher;
    /** Lease of an Extend that does not give one. */
    readonly leaseMs: number;
    readonly maxAttempts: number;
    /** Backoff of a retry that does not give a delay. */
    readonly backoff: RetryBackoff;
    readonly logger: Logger;
  }) {
    this.#dispatcher = options.dispatcher;
    this.#leaseMs = options.leaseMs;
    this.#maxAttempts = options.maxAttempts;
    this.#backoff = options.backoff;
    this.#logger = options.logger;
  }

  /** Returns the handlers by method, as grpc-js takes them. */
  byMethod(): UntypedServiceImplementation {
    return {
      subscribe: (call: ServerWritableStream<SubscribeRequest, Buffer>) => this.#subscribe(call),
      ack: this.#unary((request: AckRequest) => this.#ack(request)),
      nack: this.#unary((request: NackRequest) => this.#nack(request)),
      extend: this.#unary((request: ExtendRequest) => this.#extend(request)),
    };
  }

  #subscribe(call: ServerWritableStream<SubscribeRequest, Buffer>): void {
    try {
      const request = readSubscribe(call.request, call.getPeer());
      const log = this.#logger.child({ subscriber: request.subscriber });
      const subscription = this.#dispatcher.subscribe(request, {
        write: (encoded, onWritten) => call.write(encoded, () => onWritten()),
        endForShutdown: () => void call.emit("error", this.#grpcStatus(shuttingDown())),
      });
      if (subscription === undefined) throw shuttingDown();
      // At once and not with the first JobCall, so that an idle runner knows that it is connected.
      call.sendMetadata(new Metadata());
      log.info({ maxInFlight: request.maxInFlight, jobIds: request.jobIds.map(String) }, "Runner subscribed");
      call.on("drain", () => subscription.drained());
      // grpc-js emits this however the stream ends.
      call.on("cancelled", () => {
        this.#dispatcher.unsubscribe(subscription);
        log.info("Runner's stream ended");
      });
    } catch (error) {
      call.emit("error", this.#grpcStatus(error));
    }
  }

  // Each handler reads all items before it asks for the first: a bad one refuses the request and keeps every lease.

  async #ack({ acks }: AckRequest): Promise<AckResponse> {
    const results = acks.map(readResult);
    return create(AckResponseSchema, {
      statuses: await leaseStatuses(acks, (lease, index) => this.#dispatcher.ack(lease, results[index])),
    });
  }

  async #nack({ nacks }: NackRequest): Promise<NackResponse> {
    const outcomes = nacks.map(readNackOutcome);
    return create(NackResponseSchema, {
      statuses: await leaseStatuses(nacks, (lease, index) => {
        const outcome = outcomes[index];
        if (outcome?.kind === "fail") return this.#dispatcher.fail(lease, outcome.reason);
        const { delayMs, reason = "" } = outcome ?? {};
        return this.#dispatcher.retry(lease, {
          ...(delayMs !== undefined && { delayMs }),
          backoff: this.#backoff,
          maxAttempts: this.#maxAttempts,
          reason,
        });
      }),
    });
  }

  async #extend(request: ExtendRequest): Promise<ExtendResponse> {
    const extendMs = readExtendMs(request, this.#leaseMs);
    const progress = request.leases.map(readProgress);
    return create(ExtendResponseSchema, {
      statuses: await leaseStatuses(request.leases, (lease, index) =>
        this.#dispatcher.extend(lease, extendMs, progress[index]),
      ),
    });
  }

  #unary<Request, Response>(
    answer: (request: Request) => Promise<Response>,
  ): handleUnaryCall<Request, Response> {
    return (call, callback) => {
      answer(call.request).then(
        (response) => callback(null, response),
        (error: unknown) => callback(this.#grpcStatus(error)),
      );
    };
  }

  #grpcStatus(error: unknown): Pick<StatusObject, "code" | "details"> {
    if (error instanceof InvalidRequestError)
      return { code: status.INVALID_ARGUMENT, details: error.message };
    if (error instanceof GatewayError && error.retryable)
      return { code: status.UNAVAILABLE, details: error.message };
    this.#logger.error({ err: error }, "A runner's request failed");
    return { code: status.INTERNAL, details: "Something went wrong inside jobgate: its log says what." };
  }
}

/** Asks for each lease on its own, so that a lost one harms no other. @returns one status for each lease, in order */
async function leaseStatuses(
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

function shuttingDown(): GatewayError {
  return new GatewayError("shutting_down", "jobgate is shutting down: subscribe again");
}
