import type { Logger } from "pino";
import { GatewayError } from "../core/errors.ts";
import type { GrpcCall } from "../grpc/grpc-call.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { CallSink, SubscribeRequest, Subscription } from "./subscription.ts";

/**
 * Subscribes a call, until the call is over.
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

/** Error that ends streams and refuses new streams. */
export function shuttingDown(): GatewayError {
  return new GatewayError("shutting_down", "jobgate is shutting down: subscribe again");
}
