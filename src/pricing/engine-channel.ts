import { type ChannelOptions, Client, credentials } from "@grpc/grpc-js";
import { PricingEngine } from "../gen/pricing_engine/pricing_pb.ts";

/** The largest message in either direction. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/**
 * Asking for a price again is safe, since nothing is changed by it. Short, because an engine without what the
 * request asks for says UNAVAILABLE too, and means it.
 */
const RETRIES = {
  methodConfig: [
    {
      name: [{ service: PricingEngine.typeName }],
      retryPolicy: {
        maxAttempts: 3,
        initialBackoff: "0.02s",
        maxBackoff: "0.1s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
};

const OPTIONS: ChannelOptions = {
  "grpc.service_config": JSON.stringify(RETRIES),
  "grpc.service_config_disable_resolution": 1,
  // An engine that is back is found within half a second, at a new address too.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.dns_min_time_between_resolutions_ms": 1_000,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
  "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
  // One connection for each client: one that is closed must not wait for another's.
  "grpc.use_local_subchannel_pool": 1,
};

/** A client for the gRPC server at an `http://` or `https://` URL. It connects when it is first used. */
export function openEngineChannel(url: string): Client {
  const { protocol, hostname, port } = new URL(url);
  const secure = protocol === "https:";
  const target = `${hostname}:${port === "" ? (secure ? 443 : 80) : port}`;
  return new Client(target, secure ? credentials.createSsl() : credentials.createInsecure(), OPTIONS);
}
