import { Client, credentials } from "@grpc/grpc-js";

/** Whether a gRPC server answers at an `http://` or `https://` URL within a time. */
export function isEngineReachable(url: string, timeoutMs: number): Promise<boolean> {
  const { protocol, hostname, port } = new URL(url);
  const secure = protocol === "https:";
  const target = `${hostname}:${port === "" ? (secure ? 443 : 80) : port}`;
  const client = new Client(target, secure ? credentials.createSsl() : credentials.createInsecure());
  return new Promise((resolve) => {
    client.waitForReady(Date.now() + timeoutMs, (error) => {
      client.close();
      resolve(error === undefined || error === null);
    });
  });
}
