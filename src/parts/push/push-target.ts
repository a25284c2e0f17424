import { systemClock } from "../../core/clock.ts";
import { toSigningKey } from "../../core/standard-webhooks.ts";
import type { Host } from "../../part.ts";
import { HttpRunner, leaseTermsOf } from "../outbound/http-runner.ts";
import { HttpRunners } from "../outbound/http-runners.ts";
import { signatureHeaders, toCloudEvent } from "./cloud-event.ts";
import type { PushTargetConfig } from "./config.ts";
import { bodyLimit, readOutcome } from "./push-answer.ts";

/** Makes a runner for each push target. JobCalls go to these runners and to subscribed runners. */
export function pushRunners({
  dispatcher,
  config: { runner },
  logger,
}: Pick<Host, "dispatcher" | "logger"> & { readonly config: Pick<Host["config"], "runner"> }) {
  const terms = leaseTermsOf(runner);
  return new HttpRunners<PushTargetConfig>(({ url, concurrency, timeoutMs, jobIds, secrets }) => {
    const keys = secrets.flatMap((secret) => toSigningKey(secret) ?? []);
    return new HttpRunner({
      subscriber: `push to ${new URL(url).origin}`,
      server: { url, concurrency, timeoutMs },
      jobIds,
      protocol: {
        ask(call) {
          const event = toCloudEvent(call, terms.leaseMs);
          const headers = { ...event.headers, ...signatureHeaders(event, keys, systemClock()) };
          const maxBytes = dispatcher.maxResultBytes(event.job);
          const limit = (status: number) => bodyLimit(status, maxBytes);
          const message = { method: "POST", headers, body: event.body, bodyLimit: limit };
          return { kind: "request", message, read: readOutcome };
        },
      },
      ...{ dispatcher, terms, clock: systemClock, logger },
    });
  });
}
