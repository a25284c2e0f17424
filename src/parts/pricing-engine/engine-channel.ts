import {
  type ChannelOptions,
  Client,
  connectivityState,
  credentials,
  type MethodDefinition,
} from "@grpc/grpc-js";
import { PricingEngine } from "../../gen/pricing_engine/pricing_pb.ts";

/** Largest message in either direction. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/** The pricing engine's methods, with messages as bytes, so that they can be passed on unchanged. */
export const RAW_ENGINE_METHODS = {
  getPrice: rawMethod(PricingEngine.method.getPrice.name),
  getJobPrice: rawMethod(PricingEngine.method.getJobPrice.name),
} satisfies Record<keyof typeof PricingEngine.method, MethodDefinition<Buffer, Buffer>>;

export type EngineMethod = keyof typeof RAW_ENGINE_METHODS;

/**
 * Retries are safe, because asking for a price changes nothing. They are short, because an engine that lacks what the
 * request asks for also answers UNAVAILABLE, and that answer does not change.
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
  // Finds an engine that is back within half a second, even at a new address.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.dns_min_time_between_resolutions_ms": 1_000,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
  "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
  // One connection per client, so that closing one connection does not wait for another.
  "grpc.use_local_subchannel_pool": 1,
};

/** Creates a client for the gRPC server at an `http://` or `https://` URL. It connects when it is first used. */
export function openEngineChannel(url: string): Client {
  const { protocol, hostname, port } = new URL(url);
  const secure = protocol === "https:";
  const target = `${hostname}:${port === "" ? (secure ? 443 : 80) : port}`;
  return new Client(target, secure ? credentials.createSsl() : credentials.createInsecure(), OPTIONS);
}

/** Returns true if a gRPC server answers at an `http://` or `https://` URL: at the first try, within a time. */
export async function isEngineReachable(url: string, timeoutMs: number): Promise<boolean> {
  const client = openEngineChannel(url);
  try {
    return await connects(client.getChannel(), Date.now() + timeoutMs);
  } finally {
    client.close();
  }
}

/** Replaces `waitForReady`, which tries again until its deadline even when a connection is refused. */
async function connects(channel: ReturnType<Client["getChannel"]>, deadline: number): Promise<boolean> {
  for (;;) {
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.READY) return true;
    if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return false;
    const changed = await new Promise<boolean>((resolve) => {
      channel.watchConnectivityState(state, deadline, (error) => resolve(error === undefined));
    });
    if (!changed) return false;
  }
}

function rawMethod(name: string): MethodDefinition<Buffer, Buffer> {
  const asIs = (message: Buffer) => message;
  return {
    path: `/${PricingEngine.typeName}/${name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}
