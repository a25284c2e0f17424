import type { Socket } from "node:net";
import type { Logger } from "pino";
import { onTestFinished } from "vitest";
import type { BindAddress } from "../../src/core/network-address.ts";
import type { HttpTimeouts } from "../../src/http/limits.ts";
import { jsonResponse } from "../../src/http/response.ts";
import type { MethodHandlers, RouteHandler, RouteTable } from "../../src/http/routes.ts";
import { HttpServer } from "../../src/http/server.ts";
import { startLog } from "../helpers/log.ts";
import { openSocket, rawRequest } from "../helpers/raw-request.ts";

const LOCAL: BindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 };
export const MAX_BODY = 100;
/** Time-outs that a test can wait for. */
export const SHORT: Partial<HttpTimeouts> = { headersMs: 300, requestMs: 600, stopUploadMs: 200 };

/** Route that answers with the length of the body. */
export const COUNT: MethodHandlers = {
  POST: async (incoming) =>
    jsonResponse(200, { length: (await incoming.readBody(MAX_BODY)).byteLength, path: incoming.path }),
};

export function tableOf(routes: Record<string, MethodHandlers>): RouteTable {
  return (path) => (Object.hasOwn(routes, path) ? routes[path] : undefined);
}

/** Makes a server with nothing mounted, and so without a socket. */
export function newServer(
  options: {
    address?: BindAddress;
    timeouts?: Partial<HttpTimeouts>;
    maxHeldBodyBytes?: number;
    logger?: Logger;
  } = {},
): HttpServer {
  return new HttpServer({ address: LOCAL, logger: startLog("error").logger, ...options });
}

/** Starts a server for one test, with {@link COUNT} at `/count` and the given routes. */
export async function startServer(
  options: {
    routes?: Record<string, MethodHandlers>;
    timeouts?: Partial<HttpTimeouts>;
    address?: BindAddress;
    maxHeldBodyBytes?: number;
  } = {},
) {
  const { routes = {}, ...rest } = options;
  const { logger, lines: errors } = startLog("error");
  const server = newServer({ ...rest, logger });
  const table = tableOf({ "/count": COUNT, ...routes });
  await server.mount(table);
  const stop = () => server.unmount(table);
  onTestFinished(stop);
  const url = rest.address?.kind === "unix" ? server.address : `http://${server.address}`;
  return { server, stop, url, errors };
}

/** Makes a route that holds POST requests until they are released, and then answers with `answer`. */
export function heldRoute(answer: RouteHandler) {
  const asked = deferred();
  const released = deferred();
  const handlers: MethodHandlers = {
    POST: async (incoming) => {
      asked.resolve();
      await released.promise;
      return answer(incoming);
    },
  };
  return {
    handlers,
    /** Resolves once the first request has arrived. */
    asked: asked.promise,
    release: released.resolve,
  };
}

/** Makes a promise and the function that resolves it. */
function deferred() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Resolves once the server has read what was sent before, because it has answered a request that was sent later. */
export async function caughtUp(url: string): Promise<void> {
  const { status } = await rawRequest(url, "POST /count");
  if (status !== 200) throw new Error(`the server answered ${status}`);
}

export async function isGone(url: string): Promise<boolean> {
  try {
    (await openSocket(url)).destroy();
    return false;
  } catch {
    return true;
  }
}

/** Resolves once the connection is closed, or reset. */
export async function closed(socket: Socket): Promise<void> {
  // A reset is an end like any other: the kernel sends one for a connection that the server had not taken up yet.
  socket.on("error", () => undefined);
  if (!socket.closed) await new Promise<void>((resolve) => socket.once("close", () => resolve()));
}
