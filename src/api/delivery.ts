/** `jobgate/delivery`: the gRPC server that delivers jobs from a store to runners. */

export type { RunnerConfig } from "../config/config.ts";
export type { Clock } from "../core/clock.ts";
export { RunnerServer } from "../delivery/runner-server.ts";
