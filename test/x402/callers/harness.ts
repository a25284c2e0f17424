import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, request as sendRequest } from "node:http";
import { json } from "node:stream/consumers";
import type { JobRestriction } from "../../../src/config/config.ts";
import type { Clock } from "../../../src/core/clock.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import type { JobKey } from "../../../src/core/job-call.ts";
import { HttpRequest } from "../../../src/http/request.ts";
import { Uploads } from "../../../src/http/uploads.ts";
import type { Store } from "../../../src/store/store.ts";
import { CallerAuth } from "../../../src/x402/callers/caller-auth.ts";
import { CallerChain } from "../../../src/x402/callers/chain.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import { openTestStore } from "../../helpers/test-store.ts";

/** The caller that was let in, or the refusal. */
export interface Verdict {
  readonly caller?: string;
  readonly code?: string;
  readonly status?: number;
  readonly retryable?: boolean;
}

/** Caller authorization behind a socket, with a real store and a real chain. */
export interface CallerDesk {
  readonly store: Store;
  /** Sends a request with these headers, each in each of its values, and returns the verdict. */
  ask(headers: Readonly<Record<string, string | string[]>>, body?: string | Uint8Array): Promise<Verdict>;
  stop(): Promise<void>;
}

export async function openCallerDesk(options: {
  readonly restriction: JobRestriction;
  readonly job: JobKey;
  readonly clock: Clock;
}): Promise<CallerDesk> {
  const { restriction, job, clock } = options;
  const opened = await openTestStore();
  const { store } = opened;
  const chain = new CallerChain({ timeoutMs: 2_000, clock });
  const auth = new CallerAuth({ chain, journal: store, clock });

  const uploads = new Uploads();
  const judge = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<Verdict> => {
    const request = new HttpRequest("1", incoming, outgoing, uploads);
    try {
      const body = await request.readBody(4_000_000);
      const { caller } = await auth.authorize(job, restriction, { request, body, payer: "0x" });
      return { caller };
    } catch (error) {
      if (!(error instanceof GatewayError)) return { code: String(error) };
      return { code: error.code, status: error.status, ...(error.details as { retryable?: boolean }) };
    }
  };
  const listener = await listenHttp({
    handler: (incoming, outgoing) =>
      void judge(incoming, outgoing).then((verdict) => outgoing.end(JSON.stringify(verdict))),
  });

  return {
    store,
    async ask(headers, body = "hello") {
      const request = sendRequest(listener.url, { method: "POST", headers: { ...headers }, agent: false });
      request.end(body);
      const [response] = await once(request, "response");
      return (await json(response)) as Verdict;
    },
    async stop() {
      await listener.stop();
      await opened.stop();
    },
  };
}
