import { createServer, type RequestListener } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** A node:http server on 127.0.0.1. */
export interface HttpListener {
  readonly url: string;
  readonly port: number;
  /** Connections that are open now. */
  readonly sockets: ReadonlySet<Socket>;
  /** Stops accepting and cuts every open connection. */
  stop(): Promise<void>;
}

/** Starts a server on a port of 127.0.0.1; 0, the default, is a free one. */
export async function listenHttp(options: {
  readonly handler: RequestListener;
  readonly port?: number;
}): Promise<HttpListener> {
  const server = createServer(options.handler);
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    sockets,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
