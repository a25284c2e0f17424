import type { Config } from "../../config/config.ts";
import { CallbackKeys } from "../../core/callback-keys.ts";
import type { Part } from "../../part.ts";
import { CallbackSender } from "./callback-sender.ts";

/** Calls operators and buyers back about what happened. */
export const part: Part = {
  load: () => (host) => {
    const { store, events, logger, telemetry } = host;
    const keys = new CallbackKeys((candidate) => store.keepSecret("callbacks", candidate));
    const sender = new CallbackSender({
      store,
      keys,
      callUrl: (callId) => `${host.config.x402?.publicUrl}/x402/calls/${callId}`,
      events,
      logger,
      telemetry,
    });
    const use = async ({ callbackKeys, callbacks, x402 }: Config) => {
      await keys.use(callbackKeys);
      await sender.use({ endpoints: callbacks, buyers: x402?.callbacks });
    };
    return {
      callbackKeys: keys,
      callbacks: sender,
      async start() {
        await use(host.config);
        await sender.start();
      },
      reload: use,
      stop: () => sender.stop(),
    };
  },
};
