import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { isEngineReachable } from "../../../src/parts/pricing-engine/engine-channel.ts";

test("A gRPC server is reachable until it stops", async () => {
  const server = new Server();
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const url = `http://127.0.0.1:${port}`;
  try {
    expect(await isEngineReachable(url, 50_000)).toBe(true);
  } finally {
    server.forceShutdown();
  }
  expect(await isEngineReachable(url, 5_000)).toBe(false);
});

test("A server that accepts connections and stays silent is unreachable after the time-out", async () => {
  const silent = createServer();
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const sockets: { destroy(): void }[] = [];
  silent.on("connection", (socket) => sockets.push(socket));
  const { port } = silent.address() as AddressInfo;
  try {
    expect(await isEngineReachable(`http://127.0.0.1:${port}`, 300)).toBe(false);
  } finally {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => silent.close(resolve));
  }
});
