import { once } from "node:events";
import { request as sendRequest } from "node:http";
import { json } from "node:stream/consumers";
import { pino } from "pino";
import type { JobRestriction } from "../../../src/config/config.ts";
import type { Clock } from "../../../src/core/clock.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import type { JobKey } from "../../../src/core/job-call.ts";
import type { HttpRequest } from "../../../src/http/request.ts";
import { jsonResponse } from "../../../src/http/response.ts";
import type { MethodHandlers } from "../../../src/http/routes.ts";
import { HttpServer } from "../../../src/http/server.ts";
import { CallerAuth } from "../../../src/parts/callers/caller-auth.ts";
import { CallerChain } from "../../../src/parts/callers/caller-chain.ts";
import type { Store } from "../../../src/store/store.ts";
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
  const chain = new CallerChain({ timeoutMs: 30_000, clock });
  const auth = new CallerAuth({ chain, journal: store, clock });

  const judge = async (request: HttpRequest): Promise<Verdict> => {
    try {
      const body = await request.readBody(4_000_000);
      const { caller } = await auth.authorize(job, restriction, {
        request,
        body,
        requestHash: undefined,
        payer: "0x",
      });
      return { caller };
    } catch (error) {
      if (!(error instanceof GatewayError)) return { code: String(error) };
      return { code: error.code, status: error.status, ...(error.details as { retryable?: boolean }) };
    }
  };
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const server = new HttpServer({ address, logger: pino({ level: "silent" }) });
  const handlers: MethodHandlers = { POST: async (request) => jsonResponse(200, await judge(request)) };
  const routes = () => handlers;
  await server.mount(routes);

  return {
    store,
    async ask(headers, body = "hello") {
      const request = sendRequest(`http://${server.address}`, {
        method: "POST",
        headers: { ...headers },
        agent: false,
      });
      request.end(body);
      const [response] = await once(request, "response");
      return (await json(response)) as Verdict;
    },
    async stop() {
      await server.unmount(routes);
      await opened.stop();
    },
  };
}
