import type { Logger } from "pino";
import { GatewayError } from "../core/errors.ts";
import type { GrpcCall } from "../grpc/grpc-call.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { InvalidRequestError } from "./runner-requests.ts";
import type { CallSink, SubscribeRequest, Subscription } from "./subscription.ts";

/**
 * Subscribes a call, until the call is over.
 * @throws InvalidRequestError for a request that names a job which another stream reserves
 * @throws GatewayError while jobgate shuts down
 */
export function openStream(
  call: GrpcCall,
  options: {
    readonly request: SubscribeRequest;
    readonly sink: CallSink;
    readonly dispatcher: Dispatcher;
    readonly logger: Logger;
  },
): Subscription {
  const { request, sink, dispatcher, logger } = options;
  refuseReserved(request, dispatcher);
  const subscription = dispatcher.subscribe(request, sink);
  if (subscription === undefined) throw shuttingDown();
  // The headers are sent at once, rather than with the first JobCall, so that an idle runner knows that it is connected.
  call.sendHeaders();
  const { subscriber, maxInFlight, jobIds } = request;
  const log = logger.child({ subscriber });
  log.info({ maxInFlight, jobIds: jobIds.map(String) }, "a runner subscribed");
  call.onDrain(() => subscription.drained());
  call.onOver(() => {
    dispatcher.unsubscribe(subscription);
    log.info("a runner's stream ended");
  });
  return subscription;
}

function refuseReserved({ jobIds }: SubscribeRequest, dispatcher: Dispatcher): void {
  for (const { reserves, subscriber, jobIds: reserved } of dispatcher.report()) {
    const jobId = reserves ? reserved.find((id) => jobIds.includes(id)) : undefined;
    if (jobId !== undefined) throw reservedJob(jobId, subscriber);
  }
}

/** Error that ends and refuses streams which name a job that another stream reserves. */
export function reservedJob(jobId: bigint, subscriber: string): InvalidRequestError {
  return new InvalidRequestError(
    `job_ids has ${jobId}, a job of ${subscriber}, which no runner gets: leave it out.`,
  );
}

/** Error that ends streams and refuses new streams. */
export function shuttingDown(): GatewayError {
  return new GatewayError("shutting_down", "jobgate is shutting down: subscribe again");
}
