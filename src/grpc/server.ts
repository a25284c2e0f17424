import type {
  Http2Server,
  IncomingHttpHeaders,
  ServerHttp2Session,
  ServerHttp2Stream,
  Settings,
} from "node:http2";
import { Server, type ServerCredentials, type ServerOptions } from "@grpc/grpc-js";
import { addressText, type TcpAddress } from "../core/network-address.ts";
import type { DirectService } from "./direct-service.ts";

/** Most calls in progress on one connection; a client's library queues further calls. */
const MAX_CONCURRENT_STREAMS = 500;
/** Most bytes of a call's metadata. The server announces the limit on connection, and clients refuse to send more. */
const MAX_METADATA_BYTES = 32 * 1024;
/** More resets than this in {@link RESET_WINDOW_MS} end the connection, because each reset costs as much as a call. */
const MAX_RESETS = MAX_CONCURRENT_STREAMS;
const RESET_WINDOW_MS = 10_000;
/** RFC 9113 §7 */
const ENHANCE_YOUR_CALM = 0xb;
/** Interval between two checks for connections that nghttp2 has given up. */
const GIVEN_UP_CHECK_MS = 1_000;

/** Members of grpc-js's server for which grpc-js has no options. */
interface ServerInternals {
  readonly commonServerOptions: { settings?: Settings };
  createHttp2Server(credentials: ServerCredentials): Http2Server;
  /** Serves each call, unless channelz is on. */
  _streamHandler(interceptors: unknown, stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void;
}

/** Makes a server that bounds what one connection can ask for. It does not count calls for channelz. */
export function createGrpcServer(options: ServerOptions): Server {
  const server = new Server({
    "grpc.max_concurrent_streams": MAX_CONCURRENT_STREAMS,
    "grpc.enable_channelz": 0,
    ...options,
  });
  const internals = server as unknown as ServerInternals;
  const { commonServerOptions: http2Options } = internals;
  http2Options.settings = { ...http2Options.settings, maxHeaderListSize: MAX_METADATA_BYTES };
  // grpc-js calls this for each address, and for connections that are injected.
  const createHttp2Server = internals.createHttp2Server.bind(server);
  internals.createHttp2Server = (credentials) =>
    createHttp2Server(credentials).on("session", limitResets).on("session", endIfGivenUp);
  return server;
}

/** Adds a service to a server of {@link createGrpcServer}. Its methods take precedence over the server's own services. */
export function addDirectService(server: Server, service: DirectService): void {
  const internals = server as unknown as ServerInternals;
  const serveOther = internals._streamHandler.bind(server);
  internals._streamHandler = (interceptors, stream, headers) => {
    if (!service.serve(stream, headers)) serveOther(interceptors, stream, headers);
  };
}

/** Ends the connection with ENHANCE_YOUR_CALM when too many of its streams are reset, by either side. */
function limitResets(session: ServerHttp2Session): void {
  let resets = 0;
  let windowEndsAt = 0;
  // One shared function for all streams, because a new function for each call costs time.
  function onStreamClose(this: ServerHttp2Stream): void {
    if (this.rstCode === 0 || session.destroyed) return;
    const now = performance.now();
    if (now >= windowEndsAt) {
      windowEndsAt = now + RESET_WINDOW_MS;
      resets = 0;
    }
    resets++;
    if (resets > MAX_RESETS) session.destroy(new Error("Too many streams were reset"), ENHANCE_YOUR_CALM);
  }
  session.on("stream", (stream) => stream.on("close", onStreamClose));
}

/** Members of a connection's socket that count what nghttp2 reads and writes past Node's streams. */
interface SocketCounters {
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly _handle?: { readonly writeQueueSize: number } | null;
}

/**
 * Ends a connection that nghttp2 gave up, as it does when one header is over 64 KiB. nghttp2 then sends GOAWAY and
 * neither reads nor writes any more, but Node leaves the socket open and emits no event. Such a connection is
 * recognised by a ping that stays unwritten although no other write is pending. Only connections that have received
 * bytes since the last check are pinged.
 */
function endIfGivenUp(session: ServerHttp2Session): void {
  const socket = session.socket as unknown as SocketCounters;
  let bytesRead = 0;
  let writtenAtPing: number | undefined;
  const timer = setInterval(() => {
    if (session.destroyed) return;
    if (socket.bytesWritten === writtenAtPing && socket._handle?.writeQueueSize === 0) {
      session.destroy();
      return;
    }
    const isPinged = socket.bytesRead !== bytesRead && session.ping(() => undefined);
    writtenAtPing = isPinged ? socket.bytesWritten : undefined;
    bytesRead = socket.bytesRead;
  }, GIVEN_UP_CHECK_MS).unref();
  session.once("close", () => clearInterval(timer));
}

/** Binds a server to `host:port` or `unix:path`. @returns the bound port */
export function listen(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => (error ? reject(error) : resolve(port)));
  });
}

/** Binds a server to a TCP address. @returns `host:port` as bound */
export async function listenOnTcp(
  server: Server,
  address: TcpAddress,
  credentials: ServerCredentials,
): Promise<string> {
  const port = await listen(server, addressText(address), credentials);
  return addressText({ ...address, port });
}

/** Takes no new calls, waits up to `timeoutMs` for calls in progress, and then cuts off the rest. */
export function close(server: Server, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const closed = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      server.forceShutdown();
      closed();
    }, timeoutMs);
    server.tryShutdown(closed);
  });
}
