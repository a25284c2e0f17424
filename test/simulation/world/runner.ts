import { create } from "@bufbuild/protobuf";
import { ChargeSchema, type JobCall, LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { IMPOSSIBLE } from "./client.ts";
import { LEASE_MS } from "./delivery.ts";
import { type Laws, PRICE } from "./laws.ts";
import { isLong, workLong } from "./long-work.ts";
import type { Replica, Running } from "./replica.ts";
import { askOnce, type LeaseRequest, RunnerLink } from "./runner-link.ts";
import type { Simulation } from "./simulation.ts";

interface Parts {
  readonly simulation: Simulation;
  /** The one that it connects to. */
  readonly replica: Replica;
  /** Those at which it sometimes finishes JobCalls. */
  readonly replicas: readonly Replica[];
  readonly laws: Laws;
  readonly name: string;
}

const MAX_AWAY_MS = 90_000;
const MAX_REST_MS = 8_000;
const RECONNECT_MS = 400;
const MAX_ASKS = 5;
/** Time after which a runner asks again, and then between its extensions. */
const PATIENCE_MS = 1_000;
const EXTEND_MS = LEASE_MS / 3;

/** A request about a lease without what its sender does with the answer. */
type Question = LeaseRequest extends infer Request
  ? Request extends LeaseRequest
    ? Pick<Request, "kind" | "lease">
    : never
  : never;

/** A runner that works on JobCalls, most of the time as it should. */
export class Runner {
  readonly #parts: Parts;
  readonly #isWork: boolean;
  #gateway: Running | undefined;
  #link: RunnerLink | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#isWork = parts.simulation.random(`${parts.name} uses Work`) < 0.7;
  }

  start(): void {
    this.#connect();
  }

  /** Connects whenever it has no stream. */
  #connect(): void {
    const { simulation, replica, laws, name } = this.#parts;
    if (simulation.fault(`${name} goes away`, 0.005)) {
      this.#link?.cancel();
      this.#link = undefined;
      const awayMs = simulation.delay(`${name} stays away`, 1_000, MAX_AWAY_MS);
      simulation.at(awayMs, simulation.world, () => this.#connect());
      return;
    }
    this.#link?.checkGateway();
    const gateway = replica.running;
    if (gateway !== undefined && this.#link?.isOpen !== true) {
      this.#gateway = gateway;
      this.#link = new RunnerLink(gateway, {
        ...{ simulation, laws, name, isWork: this.#isWork },
        onCall: (call) => this.#take(call),
      });
    }
    simulation.at(RECONNECT_MS, simulation.world, () => this.#connect());
  }

  #take(call: JobCall): void {
    const { simulation, laws, name } = this.#parts;
    const link = this.#link;
    const body = Buffer.from(call.body).toString();
    simulation.say(`${name} gets JobCall ${call.callId} (attempt ${call.attempt})`);
    laws.delivered(Number(call.callId), body);
    const isCut = simulation.fault(`${name} loses its stream`, 0.03);
    if (isCut) link?.cut();
    if (isCut || simulation.fault(`${name} forgets a JobCall`, 0.03)) return;
    if (simulation.fault(`${name} stops reading`, 0.02))
      link?.stopReading(simulation.delay(`${name} reads again`, 100, MAX_REST_MS));
    if (this.#isWork && simulation.fault(`${name} pauses`, 0.02))
      link?.pause(simulation.delay(`${name} goes on`, 100, MAX_REST_MS));
    if (this.#isWork && simulation.fault(`${name} ends its stream`, 0.02)) link?.halfClose();
    if (isLong(body)) {
      this.#workLong(call, body);
      return;
    }
    const isSlow = simulation.fault(`${name} is slower than the lease`, 0.05);
    const workMs = simulation.delay(`${name} works`, 1, 1_500) + (isSlow ? LEASE_MS : 0);
    if (isSlow && simulation.random(`${name} extends`) < 0.5) this.#keep(call, body, simulation.now + workMs);
    simulation.at(workMs, simulation.world, () => this.#finish(call, body));
  }

  #workLong(call: JobCall, body: string): void {
    const isUsed = this.#unitsOf(call) !== undefined;
    workLong(this.#parts, body, {
      report: (units, onAnswer) =>
        this.#extend(
          call,
          isUsed ? units : undefined,
          (isHeld) => onAnswer(isHeld),
          () => onAnswer(true),
        ),
      finish: (units) => {
        this.#link?.finished(call.callId);
        this.#ack(call, MAX_ASKS, isUsed ? units : undefined);
      },
    });
  }

  /** Keeps a lease until some time. */
  #keep(call: JobCall, body: string, until: number): void {
    const { simulation, laws } = this.#parts;
    if (simulation.now >= until) return;
    const units = this.#unitsOf(call);
    if (units !== undefined) laws.asks(body, units / 2n);
    this.#extend(call, units === undefined ? undefined : units / 2n);
    simulation.at(EXTEND_MS, simulation.world, () => this.#keep(call, body, until));
  }

  /** @param units the charge so far */
  #extend(
    { callId, leaseToken }: JobCall,
    units: bigint | undefined,
    onAnswer: (isHeld: boolean) => void = () => undefined,
    onNothing?: () => void,
  ): void {
    const lease = { callId, leaseToken, ...(units !== undefined && { chargeSoFar: charge(units) }) };
    const hear = (status: LeaseStatus | undefined) => {
      if (status === LeaseStatus.DONE) this.#link?.extended(callId, LEASE_MS);
      onAnswer(status === LeaseStatus.DONE);
    };
    this.#ask({ kind: "extends", lease }, hear, onNothing);
  }

  #finish(call: JobCall, body: string): void {
    const { simulation, laws, name } = this.#parts;
    const { callId, leaseToken } = call;
    this.#link?.finished(callId);
    const nack = (outcome: (LeaseRequest & { kind: "nacks" })["lease"]["outcome"]) =>
      this.#ask({ kind: "nacks", lease: { callId, leaseToken, ...(outcome && { outcome }) } });
    if (body.endsWith(IMPOSSIBLE) || simulation.fault(`${name} asks to retry`, 0.05)) {
      nack({ case: "retry", value: { reason: "busy" } });
      return;
    }
    if (simulation.fault(`${name} fails a JobCall`, 0.03)) {
      nack({ case: "fail", value: { reason: "impossible" } });
      return;
    }
    const units = this.#unitsOf(call);
    if (units !== undefined && simulation.fault(`${name} charges too much`, 0.1))
      this.#ack(call, 1, PRICE + 1n);
    if (units !== undefined) laws.asks(body, units);
    this.#ack(call, MAX_ASKS, units);
    if (simulation.fault(`${name} acks twice`, 0.05)) this.#ack(call, 1, units);
  }

  /** Returns what the JobCall costs if it is deferred: the same each time that it is done. */
  #unitsOf({ callId, metadata }: JobCall): bigint | undefined {
    if (metadata["X-X402-PAYMENT-SCHEME"] !== "upto") return undefined;
    return (PRICE * ((callId * 7n) % 11n)) / 10n;
  }

  #ack({ callId, leaseToken }: JobCall, left: number, units?: bigint): void {
    const { simulation, laws } = this.#parts;
    if (left === 0) return;
    if (units === undefined || units <= PRICE) laws.leases.asks(Number(callId), leaseToken);
    const lease = { callId, leaseToken, ...(units !== undefined && { charge: charge(units) }) };
    const again = () => this.#ack({ callId, leaseToken } as JobCall, left - 1, units);
    this.#ask(
      { kind: "acks", lease },
      (status) => {
        if (status !== LeaseStatus.DONE) return;
        laws.leases.heardDone(Number(callId), leaseToken);
        if (units !== undefined && units > PRICE)
          simulation.break(`JobCall ${callId} was charged more than its ceiling`);
      },
      () => simulation.at(700, simulation.world, again),
    );
  }

  /** Asks over its stream, in a call of its own, or at another gateway. */
  #ask(
    question: Question,
    onAnswer: (status: LeaseStatus | undefined) => void = () => undefined,
    onNothing: () => void = () => undefined,
  ): void {
    const { simulation, replicas, name } = this.#parts;
    let isOver = false;
    const once = (run: () => void) => {
      if (isOver) return;
      isOver = true;
      run();
    };
    const request = {
      ...question,
      onStatus: (status: LeaseStatus | undefined) => once(() => onAnswer(status)),
      onLost: () => once(onNothing),
    } as LeaseRequest;
    simulation.at(PATIENCE_MS, simulation.world, request.onLost);
    const goesElsewhere = simulation.random(`${name} goes elsewhere`) < 0.2;
    if (!goesElsewhere && this.#link?.ask(request)) return;
    const gateway = goesElsewhere ? simulation.pick(`${name} chooses`, replicas).running : this.#gateway;
    if (gateway?.process.isAlive) askOnce(simulation, gateway, name, request);
    else request.onLost();
  }
}

function charge(units: bigint) {
  return create(ChargeSchema, { amount: { case: "units", value: String(units) } });
}
