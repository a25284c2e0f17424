import { type CallOptions, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { QueryClient, useQuery } from "@tanstack/preact-query";
import { useRef, useState } from "preact/hooks";
import { type Network, OperatorService } from "../../gen/jobgate/v1/operator_pb.ts";
import { announce } from "../shared/announce.js";

const CALL_TIMEOUT_MS = 15_000;
/** Longest delay after a failure, so that the page notices a recovery soon. */
const RETRY_MS = 3_000;

const UNREACHABLE = "jobgate cannot be reached.";

const TOKEN_KEY = "jobgate.token";

/** The operator's token, kept for this tab only. */
export const session = {
  get token(): string | undefined {
    return sessionStorage.getItem(TOKEN_KEY) ?? undefined;
  },
  set token(token: string | undefined) {
    if (token === undefined) sessionStorage.removeItem(TOKEN_KEY);
    else sessionStorage.setItem(TOKEN_KEY, token);
  },
};

/** Client of the listener that this page came from, also where a proxy serves it under a path prefix. */
export const client = createClient(
  OperatorService,
  createConnectTransport({
    baseUrl: new URL(".", location.href).href,
    defaultTimeoutMs: CALL_TIMEOUT_MS,
    fetch: async (address, options) => {
      try {
        return await fetch(address, options);
      } catch (error) {
        // A timeout does not mean that jobgate is unreachable, because other calls may be answered.
        if (options?.signal?.aborted) throw error;
        throw new ConnectError(UNREACHABLE, Code.Unavailable, undefined, undefined, error);
      }
    },
    interceptors: [
      (next) => (request) => {
        const { token } = session;
        if (token !== undefined) request.header.set("authorization", `Bearer ${token}`);
        return next(request);
      },
    ],
  }),
);

/** Cache of jobgate's answers. A failed query is repeated while it is shown, even if its answer never changes. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: false,
      networkMode: "always",
      refetchInterval: ({ state }) => (state.error === null ? false : RETRY_MS),
    },
  },
});

/** Queries jobgate while the component is shown: at once, then every `everyMs` and after events that concern `key`. */
export function useAnswer<Answer>(
  key: readonly string[],
  everyMs: number,
  ask: (options: CallOptions) => Promise<Answer>,
) {
  return useQuery<Answer>({
    queryKey: key,
    queryFn: ({ signal }) => ask({ signal }),
    refetchInterval: ({ state }) => (state.error === null ? everyMs : Math.min(everyMs, RETRY_MS)),
  });
}

/* Queries that several views share. */

export const useInfo = () => useAnswer(["info"], 10_000, (options) => client.getInfo({}, options));
export const useTotals = () => useAnswer(["totals"], 3_000, (options) => client.getTotals({}, options));
export const useRates = () => useAnswer(["rates"], 10_000, (options) => client.listRates({}, options));
export const useEndpoints = () =>
  useAnswer(["endpoints"], 15_000, (options) => client.listEndpoints({}, options));
export const useConfiguration = () =>
  useAnswer(["configuration"], 60_000, (options) => client.getConfiguration({}, options));

/** Name and explorer of a network, read once; undefined until then. @param network CAIP-2 */
export function useNetwork(network: string): Network | undefined {
  const { data } = useQuery({
    queryKey: ["network", network],
    queryFn: ({ signal }) => client.listNetworks({ networks: [network] }, { signal }),
    enabled: network !== "",
    staleTime: "static",
  });
  return data?.networks[0];
}

/** An action of the operator, one at a time. */
export interface Action {
  /** Error of the last run, or empty. */
  readonly problem: string;
  /** Runs unless a run is in progress, announces the text that `act` returns, and repeats all queries that are shown. */
  readonly run: (act: () => Promise<string>) => Promise<void>;
}

export function useAction(): Action {
  const isBusy = useRef(false);
  const [problem, setProblem] = useState("");
  return {
    problem,
    async run(act) {
      if (isBusy.current) return;
      isBusy.current = true;
      setProblem("");
      try {
        announce(await act());
      } catch (error) {
        setProblem(errorText(error));
      } finally {
        isBusy.current = false;
      }
      // Pending answers may be older than the action, so they are dropped.
      await queries.invalidateQueries();
    },
  };
}

/** Returns undefined instead of throwing a not-found error. */
export async function ifFound<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (hasCode(error, Code.NotFound)) return undefined;
    throw error;
  }
}

export function hasCode(error: unknown, code: Code): boolean {
  return error instanceof ConnectError && error.code === code;
}

/** Returns true if jobgate did not answer at all. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ConnectError && error.rawMessage === UNREACHABLE;
}

export function errorText(error: unknown): string {
  if (hasCode(error, Code.DeadlineExceeded))
    return `jobgate did not answer within ${CALL_TIMEOUT_MS / 1_000} s.`;
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : String(error);
}
