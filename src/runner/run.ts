import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import * as grpc from "@grpc/grpc-js";
import { RunnerService } from "../gen/jobgate/v1/runner_pb.ts";
import { grpcServiceDefinition } from "../grpc/service-definition.ts";
import { type Handler, RunnerError } from "./job.ts";
import { Runner } from "./runner.ts";

export interface RunOptions {
  /** `host:port` or `unix:PATH`. Default: `JOBGATE_RUNNER`, else 127.0.0.1:8403. */
  readonly address?: string;
  /** Default: `JOBGATE_RUNNER_TOKEN`, else none. */
  readonly token?: string | undefined;
  /** PEM file of the authorities behind the certificate of a listener with TLS. Default: plaintext. */
  readonly ca?: string;
  /** PEM file of this runner's certificate, with `ca` and `key`, for a listener with `client_ca`. Default: none. */
  readonly cert?: string;
  /** PEM file of the private key of `cert`. */
  readonly key?: string;
  /** Name of this runner in jobgate. Default: host name and process id. */
  readonly subscriber?: string;
  /** Most jobs at once. Default: 8. */
  readonly concurrency?: number;
  /** Job filter. Default: all jobs. */
  readonly jobIds?: readonly (number | bigint)[];
  /** Stops the runner when it aborts, as SIGTERM does. */
  readonly signal?: AbortSignal;
  /** Default: the console. */
  readonly logger?: { info(message: string): void; warn(message: string): void };
}

const CHANNEL = {
  // grpc-js waits up to two minutes by default before it reconnects. The runner itself paces its retries.
  "grpc.max_reconnect_backoff_ms": 500,
  // jobgate is beside the runner. grpc-js would reach even 127.0.0.1 through the proxy in http_proxy.
  "grpc.enable_http_proxy": 0,
  // Without its own pings, a client does not notice that the network is gone.
  "grpc.keepalive_time_ms": 15_000,
  "grpc.keepalive_timeout_ms": 5_000,
  // The operator's max_body_bytes may be above grpc-js's default of 4 MiB.
  "grpc.max_receive_message_length": -1,
};
const Client = grpc.makeGenericClientConstructor(grpcServiceDefinition(RunnerService), "RunnerService");

/**
 * Runs jobs until SIGTERM or SIGINT, and then finishes the jobs in progress. A second signal abandons them.
 * @throws RunnerError when jobgate refuses this runner, or jobs were abandoned
 */
export async function run(handler: Handler, options: RunOptions = {}): Promise<void> {
  const { concurrency = 8, jobIds = [], subscriber = `${hostname().slice(0, 100)}/${process.pid}` } = options;
  const { signal, logger = console, token = process.env.JOBGATE_RUNNER_TOKEN } = options;
  const address = options.address ?? (process.env.JOBGATE_RUNNER || "127.0.0.1:8403");
  if (!/^(unix:.+|[^/]+:\d{1,5})$/.test(address))
    throw new RunnerError(`The address of jobgate is ${address}: expected host:port or unix:PATH`);
  if (!(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 10_000))
    throw new RunnerError(`concurrency is ${concurrency}: expected 1 to 10000`);
  const metadata = new grpc.Metadata();
  if (token) metadata.set("authorization", `Bearer ${token}`);
  const [ca, key, cert] = [options.ca, options.key, options.cert].map((path) =>
    path ? readFileSync(path) : null,
  );
  const security = ca ? grpc.credentials.createSsl(ca, key, cert) : grpc.credentials.createInsecure();
  const client = new Client(address, security, CHANNEL);
  const subscribe = { subscriber, maxInFlight: concurrency, jobIds: jobIds.map(BigInt) };
  const runner = new Runner({ open: () => client.work?.(metadata), handler, address, subscribe, logger });
  const stop = () => runner.stop();
  process.on("SIGTERM", stop).on("SIGINT", stop);
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  try {
    await runner.run();
  } finally {
    process.off("SIGTERM", stop).off("SIGINT", stop);
    signal?.removeEventListener("abort", stop);
    client.close();
  }
}
