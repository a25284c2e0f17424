import type { Server, ServerCredentials } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { addressText, type TcpAddress } from "../core/network-address.ts";

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

/** Takes no new calls, waits up to `timeoutMs` for those in progress, and then cuts the rest. */
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

const HEALTH_CHECK_INTERVAL_MS = 250;

/** `grpc.health.v1` for a server as a whole (`""`) and its services. */
export class ServerHealth {
  readonly #health = new HealthImplementation();
  readonly #names: readonly string[];
  readonly #isServing: () => boolean;
  readonly #timer: NodeJS.Timeout;
  #reported: boolean | undefined;

  /** @param services full names of the services that are as healthy as the server */
  constructor(
    server: Server,
    { services, isServing }: { readonly services: readonly string[]; readonly isServing: () => boolean },
  ) {
    this.#names = ["", ...services];
    this.#isServing = isServing;
    this.update();
    this.#health.addToServer(server as unknown as Parameters<HealthImplementation["addToServer"]>[0]);
    this.#timer = setInterval(() => this.update(), HEALTH_CHECK_INTERVAL_MS).unref();
  }

  /** Asks `isServing` now, and reports a change to watchers. */
  update(): void {
    const serving = this.#isServing();
    if (serving === this.#reported) return;
    this.#reported = serving;
    for (const name of this.#names) this.#health.setStatus(name, serving ? "SERVING" : "NOT_SERVING");
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
