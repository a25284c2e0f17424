import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import { type LeaseMessage, type LeaseRequests, leaseCount } from "../../delivery/lease-requests.ts";
import { openStream, reservedJob, shuttingDown } from "../../delivery/open-stream.ts";
import {
  InvalidRequestError,
  RUNNER_LIMITS,
  readMaxInFlight,
  readSubscribe,
} from "../../delivery/runner-requests.ts";
import type { RunnerStreamOptions, RunnerStreams } from "../../delivery/runner-service.ts";
import type { CallSink, Subscription } from "../../delivery/subscription.ts";
import {
  GatewayMessageSchema,
  type RunnerMessage,
  RunnerMessageSchema,
  type StatusesSchema,
} from "../../gen/jobgate/v1/runner_pb.ts";
import type { GrpcCall, GrpcStatus } from "../../grpc/grpc-call.ts";
import type { MessageListener } from "../../grpc/message-reader.ts";
import type { ClaimedCall } from "../../store/contract/work-queue.ts";
import { GatewayMessages } from "./gateway-messages.ts";
import { decodeAcks, encodeStatuses } from "./work-codec.ts";

/**
 * Bounds on the memory of one stream. A stream at these bounds stops reading until the store has answered and the runner has
 * read its statuses. A runner that reads nothing can still finish as many JobCalls as one stream may have in flight.
 */
const MAX_UNANSWERED_LEASES = RUNNER_LIMITS.maxInFlight;
const MAX_UNANSWERED_BYTES = RUNNER_LIMITS.requestBytes;

/** Requests of one RunnerMessage. */
type WorkMessage = LeaseMessage & Pick<RunnerMessage, "sequence">;

/** One call of Work. It carries JobCalls to a runner, the runner's outcomes, and the statuses of these outcomes. */
class WorkStream implements CallSink, MessageListener {
  readonly carriesOutcomes = true;
  readonly #call: GrpcCall;
  readonly #dispatcher: Dispatcher;
  readonly #leaseRequests: LeaseRequests;
  readonly #statusOf: (error: unknown) => GrpcStatus;
  readonly #logger: Logger;
  readonly #messages: GatewayMessages;
  #subscription: Subscription | undefined;
  /** RunnerMessages that the store has not answered. */
  #unanswered = 0;
  #unansweredBytes = 0;
  /** Leases whose statuses are not written. */
  #unansweredLeases = 0;
  #isReading = true;
  /** Status with which the stream ends. It is set when the stream waits only for outstanding answers. */
  #ending: GrpcStatus | undefined;

  constructor(options: RunnerStreamOptions) {
    this.#call = options.call;
    this.#dispatcher = options.dispatcher;
    this.#leaseRequests = options.leaseRequests;
    this.#statusOf = options.statusOf;
    this.#logger = options.logger;
    this.#messages = new GatewayMessages(options.call, options.dispatcher.leaseMs);
  }

  onMessage(bytes: Buffer): void {
    if (this.#ending !== undefined) return;
    try {
      const message = this.#read(bytes);
      const leases = leaseCount(message);
      if (leases > 0) void this.#carryOut(message, { leases, bytes: bytes.byteLength });
    } catch (error) {
      this.#end(this.#statusOf(error));
    }
  }

  onEnd(isWhole: boolean): void {
    if (isWhole && this.#subscription !== undefined) {
      // A paused runner has finished its JobCalls. Other JobCalls were on their way to it when it half-closed.
      this.#dispatcher.unsubscribe(this.#subscription, { excused: this.#subscription.isPaused });
      this.#endOnceAnswered({ code: status.OK, details: "" });
    } else {
      const details = isWhole ? "The stream has no message." : "The stream ended within a message.";
      this.#end({ code: status.INVALID_ARGUMENT, details });
    }
  }

  write(call: ClaimedCall, onWritten: () => void): boolean {
    return this.#messages.addJobCall(call, onWritten);
  }

  endForShutdown(): void {
    this.#endOnceAnswered(this.#statusOf(shuttingDown()));
  }

  endForReserved(jobId: bigint, subscriber: string): void {
    this.#endOnceAnswered(this.#statusOf(reservedJob(jobId, subscriber)));
  }

  /** Reads a message, and applies its parts that are about the stream itself. */
  #read(bytes: Buffer): WorkMessage {
    const acks = this.#subscription && decodeAcks(bytes);
    if (acks !== undefined) return acks;
    const message = readMessage(bytes);
    this.#open(message);
    return message;
  }

  #open({ subscribe, maxInFlight }: RunnerMessage): void {
    if (this.#subscription !== undefined) {
      if (subscribe !== undefined)
        throw new InvalidRequestError(
          "A later message has subscribe: send subscribe in the first message only.",
        );
      if (maxInFlight !== undefined) this.#subscription.setMaxInFlight(readMaxInFlight(maxInFlight));
      return;
    }
    if (subscribe === undefined)
      throw new InvalidRequestError("The first message has no subscribe: send subscribe in it.");
    const asked = readSubscribe(subscribe, this.#call.peer);
    const request = { ...asked, maxInFlight: readMaxInFlight(maxInFlight ?? asked.maxInFlight) };
    this.#subscription = openStream(this.#call, {
      request,
      sink: this,
      dispatcher: this.#dispatcher,
      logger: this.#logger,
    });
  }

  async #carryOut(message: WorkMessage, size: { leases: number; bytes: number }): Promise<void> {
    this.#unanswered++;
    this.#unansweredBytes += size.bytes;
    this.#unansweredLeases += size.leases;
    this.#readIfBounded();
    const statuses = await this.#statusesOf(message);
    this.#unanswered--;
    this.#unansweredBytes -= size.bytes;
    this.#messages.addStatuses(statuses, () => {
      this.#unansweredLeases -= size.leases;
      this.#readIfBounded();
    });
    this.#readIfBounded();
    if (this.#ending !== undefined) this.#endOnceAnswered(this.#ending);
  }

  /** Carries out a message. @returns its encoded Statuses */
  async #statusesOf(message: WorkMessage): Promise<Uint8Array> {
    const { sequence } = message;
    let problem: InvalidRequestError | undefined;
    try {
      const statuses = await this.#leaseRequests.carryOut(message, (found) => {
        problem ??= found;
      });
      if (problem === undefined) return encodeStatuses(sequence, statuses);
      return encodeAny({ sequence, ...statuses, errorMessage: problem.message });
    } catch (error) {
      const { code, details } = this.#statusOf(error);
      return encodeAny({ sequence, errorCode: code, errorMessage: details });
    }
  }

  #readIfBounded(): void {
    const isBounded =
      this.#unansweredLeases <= MAX_UNANSWERED_LEASES && this.#unansweredBytes <= MAX_UNANSWERED_BYTES;
    if (isBounded === this.#isReading) return;
    this.#isReading = isBounded;
    if (isBounded) this.#call.resumeReading();
    else this.#call.pauseReading();
  }

  #endOnceAnswered(ending: GrpcStatus): void {
    this.#ending = ending;
    if (this.#unanswered === 0) this.#end(ending);
  }

  #end(ending: GrpcStatus): void {
    this.#messages.flush();
    this.#call.end(ending);
  }
}

/** Serves Work. */
export const workStream: RunnerStreams = { work: (options) => new WorkStream(options) };

/** Encodes a GatewayMessage of any one Statuses. */
function encodeAny(statuses: MessageInitShape<typeof StatusesSchema>): Uint8Array {
  return toBinary(GatewayMessageSchema, create(GatewayMessageSchema, { statuses: [statuses] }));
}

/** @throws InvalidRequestError */
function readMessage(bytes: Buffer): RunnerMessage {
  try {
    return fromBinary(RunnerMessageSchema, bytes);
  } catch {
    throw new InvalidRequestError("A message is not a RunnerMessage.");
  }
}
