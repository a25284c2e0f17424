import { type Client, connectivityState } from "@grpc/grpc-js";
import { openEngineChannel } from "./engine-channel.ts";

/** Whether a gRPC server answers at an `http://` or `https://` URL: at the first try, within a time. */
export async function isEngineReachable(url: string, timeoutMs: number): Promise<boolean> {
  const client = openEngineChannel(url);
  try {
    return await connects(client.getChannel(), Date.now() + timeoutMs);
  } finally {
    client.close();
  }
}

/** Not `waitForReady`, which tries again and again until its deadline, even when a connection is refused. */
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
