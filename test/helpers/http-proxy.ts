import {
  Agent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http";
import { buffer } from "node:stream/consumers";
import { type Fault, type ProxiedAnswer, type ProxiedRequest, strike } from "./fault.ts";
import { freePort } from "./free-port.ts";
import { listenHttp } from "./http-listener.ts";

/** When a fault strikes. All that is given must hold; nothing given: always. */
export interface FaultRule {
  readonly method?: string;
  readonly path?: string;
  readonly rpcMethod?: string;
  readonly when?: (request: ProxiedRequest) => boolean;
  /** Number of requests it applies to; later ones get the next matching rule, or none. Default: all. */
  readonly times?: number;
  readonly fault: Fault | ((request: ProxiedRequest) => Fault | Promise<Fault>);
}

/** HTTP proxy that injects network and server faults into real traffic. */
export interface FaultProxy {
  readonly url: string;
  /** All requests received, in order. */
  readonly requests: readonly ProxiedRequest[];
  /** Counts the requests for a path (`/settle`) or a JSON-RPC method (`eth_call`). */
  count(pathOrRpcMethod: string): number;
  /** Adds a rule; the first one that fits strikes. */
  add(rule: FaultRule): void;
  /** Holds the next request that fits while something is done, whose result this resolves with. */
  during<Result>(rule: Omit<FaultRule, "times" | "fault">, deed: () => Promise<Result>): Promise<Result>;
  /** Removes all rules. */
  clear(): void;
  /** Empties the record of requests, which holds their bodies. */
  forget(): void;
  /** Resets every open connection. */
  resetConnections(): void;
  /** Refuses new connections, as a server that is down, and resets the open ones. */
  goDown(): Promise<void>;
  /** Accepts connections again, on the same port. */
  comeBack(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts a proxy on 127.0.0.1 for `target`, an `http://host:port` without a path. It passes everything without a rule. */
export async function startFaultProxy(options: {
  readonly target: string;
  /** Default: a free one. */
  readonly port?: number;
  readonly rules?: readonly FaultRule[];
}): Promise<FaultProxy> {
  const requests: ProxiedRequest[] = [];
  let rules: { rule: FaultRule; left: number }[] = [];
  const add = (rule: FaultRule): void => {
    rules.push({ rule, left: rule.times ?? Number.POSITIVE_INFINITY });
  };
  for (const rule of options.rules ?? []) add(rule);
  // A new connection for each request took a tenth of the CPU of the tests that pay.
  const agent = new Agent({ keepAlive: true });

  const faultFor = (received: ProxiedRequest): Fault | Promise<Fault> => {
    const found = rules.find(({ rule, left }) => left > 0 && fits(rule, received));
    if (found === undefined) return { kind: "pass" };
    found.left--;
    const { fault } = found.rule;
    return typeof fault === "function" ? fault(received) : fault;
  };
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const received = await readRequest(incoming);
    requests.push(received);
    await strike(
      await faultFor(received),
      received,
      response,
      (body = received.body, target = options.target) =>
        forward(agent, target, {
          ...received,
          body,
          headers: body === received.body ? received.headers : withLength(received.headers, body),
        }),
    );
  };
  const handler = (incoming: IncomingMessage, response: ServerResponse): void => {
    // The upstream is down, or the client has gone: no answer is possible.
    handle(incoming, response).catch(() => response.socket?.resetAndDestroy());
  };

  // It may go down and come back.
  const { port = await freePort() } = options;
  let listener = await listenHttp({ handler, port });
  const { url } = listener;
  const resetConnections = (): void => {
    for (const socket of listener.sockets) socket.resetAndDestroy();
  };
  return {
    url,
    requests,
    count: (name) =>
      requests.filter(({ path, rpcMethods }) => path === name || rpcMethods.includes(name)).length,
    add,
    during(rule, deed) {
      let arrive = () => {};
      const done = new Promise<void>((resolve) => {
        arrive = resolve;
      }).then(deed);
      const when = (received: ProxiedRequest): boolean => {
        if (!fits(rule, received)) return false;
        arrive();
        return true;
      };
      add({ when, times: 1, fault: { kind: "hold-request", until: done } });
      return done;
    },
    clear() {
      rules = [];
    },
    forget() {
      requests.length = 0;
    },
    resetConnections,
    async goDown() {
      resetConnections();
      await listener.stop();
    },
    async comeBack() {
      listener = await listenHttp({ handler, port });
    },
    async stop() {
      await listener.stop();
      agent.destroy();
    },
  };
}

const withLength = (headers: IncomingHttpHeaders, body: Buffer): IncomingHttpHeaders => ({
  ...headers,
  "content-length": String(body.byteLength),
});

function fits(rule: Omit<FaultRule, "times" | "fault">, received: ProxiedRequest): boolean {
  return (
    (rule.method === undefined || rule.method === received.method) &&
    (rule.path === undefined || rule.path === received.path) &&
    (rule.rpcMethod === undefined || received.rpcMethods.includes(rule.rpcMethod)) &&
    (rule.when === undefined || rule.when(received))
  );
}

async function readRequest(incoming: IncomingMessage): Promise<ProxiedRequest> {
  const { method = "GET", url: path = "/", headers } = incoming;
  const body = await buffer(incoming);
  return { method, path, headers, body, rpcMethods: rpcMethodsOf(body) };
}

function rpcMethodsOf(body: Buffer): string[] {
  try {
    const parsed: unknown = JSON.parse(body.toString());
    return [parsed].flat().flatMap((call) => {
      const method = (call as { method?: unknown } | null)?.method;
      return typeof method === "string" ? [method] : [];
    });
  } catch {
    return [];
  }
}

/** @param agent false: a connection of its own */
function forward(agent: Agent | false, target: string, received: ProxiedRequest): Promise<ProxiedAnswer> {
  const { method, path, headers, body } = received;
  // Uncompressed, so that a fault can change the text of an answer.
  const { "accept-encoding": _encoding, connection: _connection, ...kept } = headers;
  return new Promise((resolve, reject) => {
    const outgoing = request(
      new URL(path, target),
      { method, headers: { ...kept, host: new URL(target).host }, agent },
      (answer) => {
        buffer(answer).then(
          (bytes) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: bytes }),
          reject,
        );
      },
    );
    outgoing.once("error", (error: NodeJS.ErrnoException) => {
      // The upstream has closed a kept connection at the same moment.
      const isStale = outgoing.reusedSocket && error.code === "ECONNRESET";
      if (isStale) forward(false, target, received).then(resolve, reject);
      else reject(error);
    });
    outgoing.end(body);
  });
}
