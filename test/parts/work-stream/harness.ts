import { workStream } from "../../../src/parts/work-stream/work-stream.ts";
import { type Delivery, type DeliveryOptions, startDelivery } from "../../delivery/harness.ts";

/** Starts a runner server that serves Work on a real store, for one test. */
export function startWorkDelivery(options: DeliveryOptions = {}): Promise<Delivery> {
  return startDelivery({ ...options, streams: () => workStream });
}
