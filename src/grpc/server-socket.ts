import type { Server, ServerCredentials } from "@grpc/grpc-js";

/** Opens a server at `host:port` or `unix:path`. @returns the port as really bound */
export function listen(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => (error ? reject(error) : resolve(port)));
  });
}

/** Opens a server on a TCP address. @returns `host:port` as really bound */
export async function listenOnTcp(
  server: Server,
  address: { readonly host: string; readonly port: number },
  credentials: ServerCredentials,
): Promise<string> {
  const host = address.host.includes(":") ? `[${address.host}]` : address.host;
  const port = await listen(server, `${host}:${address.port}`, credentials);
  return `${host}:${port}`;
}

/** Takes no new calls, gives those in hand `timeoutMs` to be answered, and cuts what is left then. */
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
