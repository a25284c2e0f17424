import { create } from "@bufbuild/protobuf";
import {
  type Server,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import {
  Health,
  type HealthCheckRequest,
  type HealthCheckResponse,
  HealthCheckResponseSchema,
  type HealthListRequest,
  type HealthListResponse,
  HealthListResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../gen/grpc/health/v1/health_pb.ts";
import { grpcServiceDefinition } from "./service-definition.ts";

const HEALTH_CHECK_INTERVAL_MS = 250;

type Watcher = ServerWritableStream<HealthCheckRequest, HealthCheckResponse>;

/**
 * `grpc.health.v1` for a server as a whole (`""`) and its services. The package grpc-health-check would load and
 * compile protobuf.js for it, which takes an eighth of the time to start.
 */
export class ServerHealth {
  readonly #names: ReadonlySet<string>;
  readonly #isServing: () => boolean;
  readonly #watchers = new Set<Watcher>();
  readonly #timer: NodeJS.Timeout;
  #serving: boolean;

  /** @param services full names of the services that report the health of the server */
  constructor(
    server: Server,
    { services, isServing }: { readonly services: readonly string[]; readonly isServing: () => boolean },
  ) {
    this.#names = new Set(["", ...services]);
    this.#isServing = isServing;
    this.#serving = isServing();
    server.addService(grpcServiceDefinition(Health), {
      check: (
        call: ServerUnaryCall<HealthCheckRequest, HealthCheckResponse>,
        done: sendUnaryData<HealthCheckResponse>,
      ) => this.#check(call.request.service, done),
      list: (
        _call: ServerUnaryCall<HealthListRequest, HealthListResponse>,
        done: sendUnaryData<HealthListResponse>,
      ) => done(null, this.#list()),
      watch: (call: Watcher) => this.#watch(call),
    });
    this.#timer = setInterval(() => this.update(), HEALTH_CHECK_INTERVAL_MS).unref();
  }

  /** Calls `isServing` and reports a change to watchers. */
  update(): void {
    const serving = this.#isServing();
    if (serving === this.#serving) return;
    this.#serving = serving;
    for (const watcher of this.#watchers) watcher.write(this.#answer());
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #answer(): HealthCheckResponse {
    const status = this.#serving ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
    return create(HealthCheckResponseSchema, { status });
  }

  #check(service: string, done: sendUnaryData<HealthCheckResponse>): void {
    if (this.#names.has(service)) done(null, this.#answer());
    else done({ code: status.NOT_FOUND, details: `Health status unknown for service ${service}` });
  }

  #list(): HealthListResponse {
    const statuses = Object.fromEntries([...this.#names].map((name) => [name, this.#answer()]));
    return create(HealthListResponseSchema, { statuses });
  }

  /** Streams until the client cancels. An unknown service is reported as unknown until the client cancels. */
  #watch(call: Watcher): void {
    if (!this.#names.has(call.request.service)) {
      call.write(create(HealthCheckResponseSchema, { status: ServingStatus.SERVICE_UNKNOWN }));
      return;
    }
    this.#watchers.add(call);
    call.once("cancelled", () => this.#watchers.delete(call));
    call.write(this.#answer());
  }
}
