import { once } from "node:events";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ClientDuplexStream, ClientReadableStream, ServiceError, StatusObject } from "@grpc/grpc-js";
import { onTestFinished } from "vitest";
import type { RunnerConfig } from "../../src/config/config.ts";
import { RunnerServer } from "../../src/delivery/runner-server.ts";
import {
  type AckRequest_AckSchema,
  type AckResponse,
  type ExtendRequest_ProgressSchema,
  type ExtendResponse,
  type GatewayMessage,
  type JobCall,
  type NackRequest_NackSchema,
  type NackResponse,
  type RunnerMessage,
  RunnerMessageSchema,
  type Statuses,
  SubscribeRequestSchema,
} from "../../src/gen/jobgate/v1/runner_pb.ts";
import type { Store } from "../../src/store/store.ts";
import { type Log, startLog } from "../helpers/log.ts";
import { makeRunnerClient, type RunnerConnection } from "../helpers/runner-client.ts";
import { openTestStore } from "../helpers/test-store.ts";
import { until } from "../helpers/until.ts";

/** An embedded store for one test. */
export async function openStoreForTest(options?: Parameters<typeof openTestStore>[0]): Promise<Store> {
  const { store, stop } = await openTestStore(options);
  onTestFinished(stop);
  return store;
}

/** A store whose leases end when a test says so, however slow the machine is. */
export async function openStoreWithClock(): Promise<{ readonly store: Store; endLeases(): void }> {
  let aheadMs = 0;
  const store = await openStoreForTest({ clock: () => Date.now() + aheadMs });
  const endLeases = (): void => {
    aheadMs += 24 * 3_600_000;
  };
  return { store, endLeases };
}

export interface Delivery {
  readonly store: Store;
  readonly server: RunnerServer;
  readonly address: string;
  readonly errors: Log["lines"];
  /** Accepts one webhook JobCall. @returns its call id */
  accept(options?: { body?: Uint8Array; jobId?: bigint }): Promise<number>;
  /** Opens a new channel. */
  connect(options?: Omit<RunnerConnection, "address">): Runner;
}

type ServerOptions = ConstructorParameters<typeof RunnerServer>[0];

export type DeliveryOptions = Partial<RunnerConfig> &
  Partial<
    Pick<ServerOptions, "status" | "keepalive" | "observer" | "check" | "streams" | "maxResultBytes">
  > & {
    readonly store?: Store;
  };

/** Starts a runner server on a real store, for one test. */
export async function startDelivery({
  store: given,
  status,
  keepalive,
  observer,
  check,
  streams,
  maxResultBytes,
  ...config
}: DeliveryOptions = {}): Promise<Delivery> {
  const store = given ?? (await openStoreForTest());
  const { logger, lines: errors } = startLog("error");
  const server = new RunnerServer({
    config: {
      bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
      tokens: [],
      leaseMs: 60_000,
      maxAttempts: 10,
      retryBaseMs: 20,
      retryMaxMs: 200,
      drainMs: 0,
      ...config,
    },
    workQueue: store,
    status: status ?? (() => store.status()),
    logger,
    ...(keepalive && { keepalive }),
    ...(observer && { observer }),
    check,
    ...(streams && { streams }),
    ...(maxResultBytes && { maxResultBytes }),
  });
  await server.start();
  onTestFinished(() => server.stop());
  return {
    store,
    server,
    address: server.address,
    errors,
    async accept({ body = Buffer.from("hello"), jobId = 7n } = {}) {
      const metadata = { "X-WEBHOOK-ORIGIN": "webhook", "X-WEBHOOK-PATH": "/hooks/test" };
      const accepted = await store.accept({ origin: "webhook", jobId, serviceId: 1n, body, metadata });
      if (accepted.kind !== "accepted") throw new Error(accepted.kind);
      return accepted.callId;
    },
    connect: (options) => connectRunner(server.address, options),
  };
}

export type OpenStream = ClientReadableStream<JobCall>;

/** A runner as an author would write it with grpc-js, for one test. */
export interface Runner {
  /** Resolves when the response headers arrive. */
  subscribe(request?: MessageInitShape<typeof SubscribeRequestSchema>): Promise<RunnerStream>;
  ack(...acks: (LeaseLike & AckedInit)[]): Promise<AckResponse["statuses"]>;
  nack(...nacks: (LeaseLike & { outcome?: OutcomeInit })[]): Promise<NackResponse["statuses"]>;
  extend(
    leases: (LeaseLike & { progress?: ProgressInit })[],
    lease?: { seconds: bigint },
  ): Promise<ExtendResponse["statuses"]>;
  /** Opens a Work stream, and sends `subscribe` in its first message. Resolves when the response headers arrive. */
  work(
    subscribe?: MessageInitShape<typeof SubscribeRequestSchema>,
    first?: RunnerMessageInit,
  ): Promise<WorkingStream>;
  /** Cuts the connection. */
  close(): void;
}

/** Names a delivery: a JobCall does. */
interface LeaseLike {
  readonly callId: bigint;
  readonly leaseToken: string;
}
type ProgressInit = MessageInitShape<typeof ExtendRequest_ProgressSchema>;
type AckedInit = Pick<MessageInitShape<typeof AckRequest_AckSchema>, "result" | "status" | "headers">;
type OutcomeInit = NonNullable<MessageInitShape<typeof NackRequest_NackSchema>["outcome"]>;

export type RunnerMessageInit = MessageInitShape<typeof RunnerMessageSchema>;

/** One Work stream. */
export interface WorkingStream {
  readonly raw: ClientDuplexStream<RunnerMessage, GatewayMessage>;
  /** Messages received so far. */
  readonly messages: GatewayMessage[];
  /** JobCalls received so far. */
  readonly calls: JobCall[];
  /** Sends a message as it is. */
  send(message: RunnerMessageInit): void;
  /** Sends a message with a sequence of its own. Resolves with its Statuses. */
  ask(message: RunnerMessageInit): Promise<Statuses>;
  /** The next JobCall that was not asked for before. */
  next(): Promise<JobCall>;
  /** Resolves with the status that ended the stream. */
  readonly ended: Promise<StatusObject>;
}

/** One Subscribe stream. */
export interface RunnerStream {
  readonly raw: OpenStream;
  /** JobCalls received so far. */
  readonly calls: JobCall[];
  /** The next JobCall that was not asked for before. Rejects with the stream's error, or after a while. */
  next(): Promise<JobCall>;
  /** Resolves with the error that ended the stream. */
  readonly ended: Promise<ServiceError>;
  cancel(): void;
}

export function connectRunner(address: string, options: Omit<RunnerConnection, "address"> = {}): Runner {
  const client = makeRunnerClient({ address, ...options });
  onTestFinished(() => client.close());
  return {
    async subscribe(request = {}) {
      const raw = client.subscribe(request);
      const stream = runnerStream(raw);
      const failed = stream.ended.then((error) => Promise.reject(error));
      await Promise.race([once(raw, "metadata"), failed]);
      return stream;
    },
    async ack(...acks) {
      const init = acks.map(({ result, status, headers, ...lease }) => ({
        ...named(lease),
        ...(result && { result }),
        ...(status !== undefined && { status }),
        ...(headers && { headers }),
      }));
      return (await client.ack({ acks: init })).statuses;
    },
    async nack(...nacks) {
      const init = nacks.map(({ outcome, ...lease }) => ({ ...named(lease), ...(outcome && { outcome }) }));
      return (await client.nack({ nacks: init })).statuses;
    },
    async extend(leases, lease) {
      const requested = leases.map(({ progress, ...held }) => ({
        ...named(held),
        ...(progress && { progress }),
      }));
      return (await client.extend({ leases: requested, ...(lease && { lease }) })).statuses;
    },
    async work(subscribe = {}, first = {}) {
      const raw = client.work();
      const stream = workingStream(raw);
      raw.write(
        create(RunnerMessageSchema, { ...first, subscribe: create(SubscribeRequestSchema, subscribe) }),
      );
      const failed = stream.ended.then(({ details }) => Promise.reject(new Error(details)));
      await Promise.race([once(raw, "metadata"), failed]);
      return stream;
    },
    close: () => client.close(),
  };
}

function workingStream(raw: WorkingStream["raw"]): WorkingStream {
  const messages: GatewayMessage[] = [];
  const calls: JobCall[] = [];
  const answers = new Map<bigint, (statuses: Statuses) => void>();
  let sequence = 0n;
  let taken = 0;
  raw.on("data", (message: GatewayMessage) => {
    messages.push(message);
    calls.push(...message.jobCalls);
    for (const statuses of message.statuses) answers.get(statuses.sequence)?.(statuses);
  });
  raw.on("error", () => undefined);
  return {
    raw,
    messages,
    calls,
    send: (message) => raw.write(create(RunnerMessageSchema, message)),
    ask(message) {
      sequence++;
      const answer = new Promise<Statuses>((resolve) => answers.set(sequence, resolve));
      raw.write(create(RunnerMessageSchema, { ...message, sequence }));
      return answer;
    },
    async next() {
      const call = await until(() => calls[taken]);
      taken++;
      return call;
    },
    ended: new Promise((resolve) => raw.on("status", resolve)),
  };
}

export function named({ callId, leaseToken }: LeaseLike): LeaseLike {
  return { callId, leaseToken };
}

function runnerStream(raw: OpenStream): RunnerStream {
  const calls: JobCall[] = [];
  let taken = 0;
  const ended = new Promise<ServiceError>((resolve) => raw.on("error", resolve));
  raw.on("data", (call: JobCall) => calls.push(call));
  return {
    raw,
    calls,
    ended,
    async next() {
      let over = false;
      const onEnd = () => {
        over = true;
      };
      void ended.then(onEnd);
      await until(() => calls.length > taken || over);
      const call = calls[taken];
      if (call === undefined)
        throw new Error("The stream ended before the next JobCall", { cause: await ended });
      taken++;
      return call;
    },
    cancel: () => raw.cancel(),
  };
}

/** Answers every JobCall of a stream until the test ends. @returns those that are answered so far */
export function ackEverything(
  runner: Runner,
  stream: RunnerStream,
  answer = (call: JobCall): Promise<unknown> => runner.ack(call),
): Set<bigint> {
  const done = new Set<bigint>();
  const answers: Promise<unknown>[] = [];
  const take = (call: JobCall) => {
    answers.push(answer(call).then(() => done.add(call.callId)));
  };
  stream.calls.forEach(take);
  stream.raw.on("data", take);
  // Runs before the runner's connection is closed.
  onTestFinished(async () => {
    stream.raw.off("data", take);
    await Promise.all(answers);
  });
  return done;
}
