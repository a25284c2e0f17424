import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type AckRequest_AckSchema,
  AckRequestSchema,
  AckResponseSchema,
  type ExtendRequest_LeaseSchema,
  ExtendRequestSchema,
  ExtendResponseSchema,
  type GatewayMessage,
  GatewayMessageSchema,
  type JobCall,
  JobCallSchema,
  type LeaseStatus,
  type NackRequest_NackSchema,
  NackRequestSchema,
  NackResponseSchema,
  RunnerMessageSchema,
  type Statuses,
  SubscribeRequestSchema,
} from "../../../src/gen/jobgate/v1/runner_pb.ts";
import type { Laws } from "./laws.ts";
import type { Running } from "./replica.ts";
import { Rpc } from "./rpc.ts";
import type { Simulation } from "./simulation.ts";

/** JobCalls that a runner takes at a time. */
const CREDIT = 4;
/** Time for which outcomes gather on a Work stream. */
const MAX_GATHER_MS = 20;
/** Time by which a gateway may count a lease as over before the store does. */
const LATENCY_MS = 100;

/** A request about one lease. */
export type LeaseRequest = {
  readonly onStatus: (status: LeaseStatus | undefined) => void;
  readonly onLost: () => void;
} & (
  | { readonly kind: "acks"; readonly lease: MessageInitShape<typeof AckRequest_AckSchema> }
  | { readonly kind: "nacks"; readonly lease: MessageInitShape<typeof NackRequest_NackSchema> }
  | { readonly kind: "extends"; readonly lease: MessageInitShape<typeof ExtendRequest_LeaseSchema> }
);

const KINDS = ["acks", "nacks", "extends"] as const;

interface Parts {
  readonly simulation: Simulation;
  readonly laws: Laws;
  readonly name: string;
  /** It uses Work; otherwise Subscribe, and a call for each outcome. */
  readonly isWork: boolean;
  readonly onCall: (call: JobCall) => void;
}

/** A runner's stream of JobCalls from one gateway. */
export class RunnerLink {
  readonly #parts: Parts;
  readonly #gateway: Running;
  readonly #rpc: Rpc<GatewayMessage>;
  /** Virtual time at which the lease of each JobCall ends that came over the stream and has no outcome yet. */
  readonly #open = new Map<bigint, number>();
  /** Requests that are sent and not answered, by sequence. */
  readonly #sent = new Map<bigint, readonly LeaseRequest[]>();
  #gathered: LeaseRequest[] = [];
  #sequence = 0n;
  #isOver = false;
  #isEnding = false;
  #isReset = false;

  constructor(gateway: Running, parts: Parts) {
    const { simulation, name, isWork } = parts;
    this.#parts = parts;
    this.#gateway = gateway;
    this.#rpc = new Rpc<GatewayMessage>(simulation, {
      ...{ gateway: gateway.process, name, method: isWork ? "Work" : "Subscribe" },
      listener: {
        read: (bytes, isEnding) => this.#read(bytes, isEnding),
        onMessage: ({ jobCalls, statuses }) => {
          for (const answer of statuses) this.#answered(answer);
          for (const call of jobCalls) this.#take(call);
        },
        onEnd: () => this.#over(),
      },
    });
    const subscribe = create(SubscribeRequestSchema, { subscriber: name, maxInFlight: CREDIT });
    if (isWork) this.#send({ subscribe });
    else {
      this.#rpc.send(toBinary(SubscribeRequestSchema, subscribe));
      this.#rpc.halfClose();
    }
  }

  /** The runner takes it for open. */
  get isOpen(): boolean {
    return !this.#isOver && !this.#isEnding;
  }

  /** Finds out that the gateway has died. */
  checkGateway(): void {
    if (this.#gateway.process.isAlive || this.#isReset) return;
    this.#isReset = true;
    this.#rpc.reset();
  }

  /** @returns false when the requests cannot go over this stream */
  ask(request: LeaseRequest): boolean {
    const { simulation, name, isWork } = this.#parts;
    if (!isWork || !this.isOpen) return false;
    this.#gathered.push(request);
    if (this.#gathered.length > 1) return true;
    simulation.at(simulation.delay(`${name} gathers`, 0, MAX_GATHER_MS), simulation.world, () =>
      this.#flush(),
    );
    return true;
  }

  /** Notes that a JobCall has an outcome. */
  finished(callId: bigint): void {
    this.#open.delete(callId);
  }

  /** Notes that the lease of a JobCall lasts longer. */
  extended(callId: bigint, leaseMs: number): void {
    if (this.#open.has(callId)) this.#open.set(callId, this.#parts.simulation.now + leaseMs);
  }

  /** Takes no JobCalls for some time. */
  pause(ms: number): void {
    const { simulation } = this.#parts;
    if (!this.isOpen) return;
    this.#send({ maxInFlight: 0 });
    simulation.at(ms, simulation.world, () => {
      if (this.isOpen) this.#send({ maxInFlight: CREDIT });
    });
  }

  stopReading(ms: number): void {
    this.#rpc.stopReading(ms);
  }

  /** Ends the stream and still reads what is due. */
  halfClose(): void {
    if (!this.isOpen) return;
    this.#flush();
    this.#isEnding = true;
    this.#rpc.halfClose();
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#rpc.cancel();
    this.#over();
  }

  cut(): void {
    this.#rpc.cut();
  }

  #read(bytes: Buffer, isEnding: boolean): GatewayMessage {
    const { simulation, laws, isWork, name } = this.#parts;
    const message = isWork
      ? fromBinary(GatewayMessageSchema, bytes)
      : create(GatewayMessageSchema, { jobCalls: [fromBinary(JobCallSchema, bytes)] });
    for (const { callId, leaseToken, attempt } of message.jobCalls) {
      laws.sent({ callId: Number(callId), leaseToken, attempt });
      if (isWork && isEnding)
        simulation.break(`JobCall ${callId} was sent on a stream that ${name} had ended`);
    }
    return message;
  }

  #take(call: JobCall): void {
    const { simulation, laws, name, onCall } = this.#parts;
    const { now, wallMs } = simulation;
    const { seconds = 0n, nanos = 0 } = call.leaseExpiresAt ?? {};
    this.#open.set(call.callId, now + Number(seconds) * 1000 + nanos / 1e6 - wallMs);
    // A charge may end a job before its lease: its place is free at once, and its runner hears of it later.
    const isHeld = (callId: bigint) => laws.leases.isHeld(Number(callId), wallMs);
    const held = [...this.#open].filter(([callId, endsAt]) => endsAt - LATENCY_MS > now && isHeld(callId));
    if (laws.areClocksRight && held.length > CREDIT)
      simulation.break(`${name} got ${held.length} JobCalls, and asked for ${CREDIT}`);
    onCall(call);
  }

  #flush(): void {
    const requests = this.#gathered;
    this.#gathered = [];
    if (requests.length === 0) return;
    if (this.#isOver || this.#isEnding) {
      for (const { onLost } of requests) onLost();
      return;
    }
    const sequence = ++this.#sequence;
    this.#sent.set(sequence, requests);
    const leases = Object.fromEntries(
      KINDS.map((kind) => [kind, requests.filter((asked) => asked.kind === kind).map(({ lease }) => lease)]),
    );
    this.#send({ sequence, ...leases });
    const { simulation, name } = this.#parts;
    if (simulation.fault(`${name} hangs up on an answer`, 0.02))
      simulation.at(simulation.delay(`${name} hangs up`, 0, 10), simulation.world, () => this.cancel());
  }

  #answered(answer: Statuses): void {
    const { simulation, name } = this.#parts;
    const requests = this.#sent.get(answer.sequence);
    this.#sent.delete(answer.sequence);
    if (requests === undefined) {
      simulation.break(`${name} got statuses that it did not ask for`);
      return;
    }
    if (answer.errorCode !== 0) {
      for (const { onLost } of requests) onLost();
      return;
    }
    for (const kind of KINDS) {
      const asked = requests.filter((request) => request.kind === kind);
      if (asked.length !== answer[kind].length)
        simulation.break(`${name} sent ${asked.length} ${kind} and got ${answer[kind].length} statuses`);
      for (const [i, { onStatus }] of asked.entries()) onStatus(answer[kind][i]);
    }
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const unanswered = [...this.#gathered, ...[...this.#sent.values()].flat()];
    this.#gathered = [];
    this.#sent.clear();
    for (const { onLost } of unanswered) onLost();
  }

  #send(message: MessageInitShape<typeof RunnerMessageSchema>): void {
    this.#rpc.send(toBinary(RunnerMessageSchema, create(RunnerMessageSchema, message)));
  }
}

const OK = 0;

/** Asks a gateway in a call of its own. */
export function askOnce(simulation: Simulation, gateway: Running, name: string, request: LeaseRequest): void {
  let statuses: readonly LeaseStatus[] = [];
  const { method, message, read } = unaryCall(request);
  const rpc = new Rpc<readonly LeaseStatus[]>(simulation, {
    ...{ gateway: gateway.process, name, method },
    listener: {
      read,
      onMessage: (answer) => {
        statuses = answer;
      },
      onEnd: (status) => (status === OK ? request.onStatus(statuses[0]) : request.onLost()),
    },
  });
  rpc.send(message);
  rpc.halfClose();
  if (simulation.fault(`${name} loses a call`, 0.03))
    simulation.at(simulation.delay(`${name} loses it`, 0.1, 30), simulation.world, () => rpc.cut());
}

function unaryCall(request: LeaseRequest) {
  switch (request.kind) {
    case "acks":
      return {
        method: "Ack",
        message: toBinary(AckRequestSchema, create(AckRequestSchema, { acks: [request.lease] })),
        read: (bytes: Buffer) => fromBinary(AckResponseSchema, bytes).statuses,
      };
    case "nacks":
      return {
        method: "Nack",
        message: toBinary(NackRequestSchema, create(NackRequestSchema, { nacks: [request.lease] })),
        read: (bytes: Buffer) => fromBinary(NackResponseSchema, bytes).statuses,
      };
    case "extends":
      return {
        method: "Extend",
        message: toBinary(ExtendRequestSchema, create(ExtendRequestSchema, { leases: [request.lease] })),
        read: (bytes: Buffer) => fromBinary(ExtendResponseSchema, bytes).statuses,
      };
  }
}
