/* Takes the place of `src/grpc/server.ts`: a server whose calls come over the streams of `rpc.ts`. */
import type { Server } from "@grpc/grpc-js";
import type { DirectService } from "../../../src/grpc/direct-service.ts";
import { type Process, simulation } from "./simulation.ts";

/** Services of the gateways that listen. */
const listening = new WeakMap<Process, DirectService>();

class WorldServer {
  service: DirectService | undefined;

  /** Nobody asks for health or reflection. */
  addService(): void {}
}

/** Finds the runner service of a gateway. @returns undefined before it listens, and after it has closed */
export function runnerServiceOf(process: Process): DirectService | undefined {
  return listening.get(process);
}

export function createGrpcServer(): Server {
  return new WorldServer() as unknown as Server;
}

export function addDirectService(server: Server, service: DirectService): void {
  (server as unknown as WorldServer).service = service;
}

export function listen(server: Server): Promise<number> {
  const { service } = server as unknown as WorldServer;
  if (service !== undefined) listening.set(simulation().current, service);
  return Promise.resolve(1);
}

export async function listenOnTcp(server: Server): Promise<string> {
  await listen(server);
  return "gateway:1";
}

export function close(): Promise<void> {
  listening.delete(simulation().current);
  return Promise.resolve();
}
