import { create, type Message } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { refusalOf } from "../core/errors.ts";
import {
  type AckRequest,
  type AckResponse,
  AckResponseSchema,
  type ExtendRequest,
  type ExtendResponse,
  ExtendResponseSchema,
  type NackRequest,
  type NackResponse,
  NackResponseSchema,
  RunnerService,
  type SubscribeRequest,
} from "../gen/jobgate/v1/runner_pb.ts";
import { type CallHandler, type StreamHandler, unary } from "../grpc/direct-service.ts";
import type { GrpcCall, GrpcStatus } from "../grpc/grpc-call.ts";
import type { MessageListener } from "../grpc/message-reader.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { encodeDelivery } from "./job-call-codec.ts";
import type { LeaseRequests } from "./lease-requests.ts";
import { openStream, reservedJob, shuttingDown } from "./open-stream.ts";
import { InvalidRequestError, readSubscribe } from "./runner-requests.ts";
import type { CallSink } from "./subscription.ts";

/**
 * Methods of RunnerService that take a stream of messages, by the method's name in lowerCamelCase. Each serves one call, and
 * returns the listener for the call's messages.
 */
export type RunnerStreams = Readonly<Record<string, (options: RunnerStreamOptions) => MessageListener>>;

/** Services for a stream of a runner. */
export interface RunnerStreamOptions {
  readonly call: GrpcCall;
  readonly dispatcher: Dispatcher;
  readonly leaseRequests: LeaseRequests;
  /** Returns the status for the error of a request. Logs the error if it is a fault in jobgate. */
  readonly statusOf: (error: unknown) => GrpcStatus;
  readonly logger: Logger;
}

/** Serves `jobgate.v1.RunnerService`. */
export class RunnerServiceHandlers {
  readonly #dispatcher: Dispatcher;
  readonly #leaseRequests: LeaseRequests;
  readonly #streams: RunnerStreams;
  readonly #logger: Logger;

  constructor(options: {
    readonly dispatcher: Dispatcher;
    readonly leaseRequests: LeaseRequests;
    readonly streams: RunnerStreams;
    readonly logger: Logger;
  }) {
    this.#streams = options.streams;
    this.#dispatcher = options.dispatcher;
    this.#leaseRequests = options.leaseRequests;
    this.#logger = options.logger;
  }

  /** Returns the handlers of methods that take one message, by the method's name. */
  byMethod(): Readonly<Record<string, CallHandler>> {
    const { method } = RunnerService;
    const statusOf = (error: unknown, call: GrpcCall) => this.#grpcStatus(error, call);
    return {
      subscribe: (request: Message, call) => this.#subscribe(request as SubscribeRequest, call),
      ack: unary(method.ack, (request) => this.#ack(request), statusOf),
      nack: unary(method.nack, (request) => this.#nack(request), statusOf),
      extend: unary(method.extend, (request) => this.#extend(request), statusOf),
    };
  }

  /** Returns the handlers of methods that take a stream of messages, by the method's name. */
  streamsByMethod(): Readonly<Record<string, StreamHandler>> {
    const handlers = Object.entries(this.#streams).map(([name, serve]): [string, StreamHandler] => [
      name,
      (call) =>
        serve({
          call,
          dispatcher: this.#dispatcher,
          leaseRequests: this.#leaseRequests,
          statusOf: (error) => this.#grpcStatus(error, call),
          logger: this.#logger,
        }),
    ]);
    return Object.fromEntries(handlers);
  }

  async #ack({ acks }: AckRequest): Promise<AckResponse> {
    const statuses = await this.#leaseRequests.carryOut({ acks }, refuse);
    return create(AckResponseSchema, { statuses: statuses.acks });
  }

  async #nack({ nacks }: NackRequest): Promise<NackResponse> {
    const statuses = await this.#leaseRequests.carryOut({ nacks }, refuse);
    return create(NackResponseSchema, { statuses: statuses.nacks });
  }

  async #extend({ leases, lease }: ExtendRequest): Promise<ExtendResponse> {
    const statuses = await this.#leaseRequests.carryOut({ extends: leases, lease }, refuse);
    return create(ExtendResponseSchema, { statuses: statuses.extends });
  }

  #subscribe(message: SubscribeRequest, call: GrpcCall): void {
    try {
      const request = readSubscribe(message, call.peer);
      const sink: CallSink = {
        write: (claimed, onWritten) =>
          call.write(encodeDelivery(claimed, this.#dispatcher.leaseMs), onWritten),
        endForShutdown: () => call.end(this.#grpcStatus(shuttingDown(), call)),
        endForReserved: (jobId, subscriber) =>
          call.end(this.#grpcStatus(reservedJob(jobId, subscriber), call)),
      };
      openStream(call, { request, sink, dispatcher: this.#dispatcher, logger: this.#logger });
    } catch (error) {
      call.end(this.#grpcStatus(error, call));
    }
  }

  #grpcStatus(error: unknown, { peer }: GrpcCall): GrpcStatus {
    if (error instanceof InvalidRequestError)
      return { code: status.INVALID_ARGUMENT, details: error.message };
    const refusal = refusalOf(error);
    const { code, retryable, message } = refusal;
    if (refusal !== error || !retryable)
      this.#logger.error({ err: error, peer }, "a runner's request failed");
    if (retryable && code !== "internal_error") return { code: status.UNAVAILABLE, details: message };
    return { code: status.INTERNAL, details: "Something went wrong inside jobgate: its log says what." };
  }
}

/** Refuses a request as a whole. */
function refuse(problem: InvalidRequestError): never {
  throw problem;
}
