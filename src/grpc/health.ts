import type { Server } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";

export interface HealthOptions {
  /** Full names of the services that are as healthy as the server. */
  readonly services: readonly string[];
  readonly isServing: () => boolean;
}

/** `grpc.health.v1` for the server as a whole (`""`) and its services. */
export interface Health {
  /** Looks again, and tells those who watch. */
  update(): void;
  stop(): void;
}

const UPDATE_INTERVAL_MS = 250;

export function addHealth(server: Server, { services, isServing }: HealthOptions): Health {
  const health = new HealthImplementation();
  let reported: boolean | undefined;

  function update(): void {
    const serving = isServing();
    if (serving === reported) return;
    reported = serving;
    for (const name of ["", ...services]) health.setStatus(name, serving ? "SERVING" : "NOT_SERVING");
  }

  update();
  health.addToServer(server as unknown as Parameters<HealthImplementation["addToServer"]>[0]);
  const timer = setInterval(update, UPDATE_INTERVAL_MS).unref();
  return { update, stop: () => clearInterval(timer) };
}
