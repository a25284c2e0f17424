import { create } from "@bufbuild/protobuf";
import { decodeJobCall } from "../../../src/delivery/job-call-codec.ts";
import type { CallSink, Subscription } from "../../../src/delivery/subscription.ts";
import { ChargeSchema, LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import type { ClaimedCall } from "../../../src/store/contract/work-queue.ts";
import { IMPOSSIBLE } from "./client.ts";
import { type Laws, LEASE_MS, PRICE } from "./laws.ts";
import { isLong, workLong } from "./long-work.ts";
import type { Replica, Running } from "./replica.ts";
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

interface Stream {
  readonly gateway: Running;
  readonly subscription: Subscription;
}

const MAX_AWAY_MS = 90_000;
const RECONNECT_MS = 400;
const MAX_ACKS = 5;

/** A runner that works on JobCalls, most of the time as it should. */
export class Runner {
  readonly #parts: Parts;
  #stream: Stream | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  start(): void {
    this.#connect();
  }

  /** Connects whenever it has no stream. */
  #connect(): void {
    const { simulation, replica, laws, name } = this.#parts;
    if (simulation.fault(`${name} goes away`, 0.005)) {
      if (this.#stream !== undefined) this.#disconnect(this.#stream.gateway);
      simulation.at(simulation.delay(`${name} stays away`, 1_000, MAX_AWAY_MS), simulation.world, () =>
        this.#connect(),
      );
      return;
    }
    const gateway = replica.running;
    if (gateway !== undefined && this.#stream?.gateway !== gateway) {
      simulation.at(1, gateway.process, () => {
        const request = { subscriber: name, maxInFlight: 4, jobIds: [], ackOnSend: false };
        const sink: CallSink = {
          carriesOutcomes: true,
          write: (call, onWritten) => {
            laws.sent(call);
            simulation.at(simulation.delay(`to ${name}`, 0.2, 20), simulation.world, () =>
              this.#take(call, gateway),
            );
            simulation.at(0.1, gateway.process, onWritten);
            return true;
          },
          endForShutdown: () => undefined,
        };
        const subscription = gateway.dispatcher.subscribe(request, sink);
        if (subscription !== undefined) this.#stream = { gateway, subscription };
      });
    }
    simulation.at(RECONNECT_MS, simulation.world, () => this.#connect());
  }

  #take(call: ClaimedCall, from: Running): void {
    const { simulation, laws, name } = this.#parts;
    const { callId } = call;
    const { body } = decodeJobCall(call.encoded);
    simulation.say(`${name} gets JobCall ${callId} (attempt ${call.attempt})`);
    laws.delivered(call, Buffer.from(body).toString());
    if (simulation.fault(`${name} loses its stream`, 0.03)) {
      this.#disconnect(from);
      return;
    }
    if (simulation.fault(`${name} forgets a JobCall`, 0.03)) return;
    const text = Buffer.from(body).toString();
    if (isLong(text)) {
      this.#workLong(call, text);
      return;
    }
    const isSlow = simulation.fault(`${name} is slower than the lease`, 0.04);
    const workMs = simulation.delay(`${name} works`, 1, 1_500) + (isSlow ? LEASE_MS : 0);
    simulation.at(workMs, simulation.world, () => this.#finish(call, text));
  }

  #workLong(call: ClaimedCall, body: string): void {
    const { laws } = this.#parts;
    const { callId, leaseToken } = call;
    workLong(this.#parts, body, {
      report: (units, onAnswer) => {
        const lease = { callId: BigInt(callId), leaseToken, chargeSoFar: charge(units) };
        const hear = ([status]: readonly LeaseStatus[]) => {
          if (status === LeaseStatus.DONE) laws.extended(call);
          onAnswer(status === LeaseStatus.DONE);
        };
        this.#ask({ extends: [lease] as never }, hear, () => onAnswer(true));
      },
      finish: (units) => this.#ack(call, MAX_ACKS, units),
    });
  }

  #finish(call: ClaimedCall, body: string): void {
    const { simulation, laws, name } = this.#parts;
    const { callId, leaseToken } = call;
    const lease = { callId: BigInt(callId), leaseToken };
    if (body.endsWith(IMPOSSIBLE) || simulation.fault(`${name} asks to retry`, 0.05)) {
      const outcome = { case: "retry" as const, value: { reason: "busy" } };
      this.#ask({ nacks: [{ ...lease, outcome }] as never });
      return;
    }
    if (simulation.fault(`${name} fails a JobCall`, 0.03)) {
      const outcome = { case: "fail" as const, value: { reason: "impossible" } };
      this.#ask({ nacks: [{ ...lease, outcome }] as never });
      return;
    }
    if (call.byUse && simulation.fault(`${name} charges too much`, 0.1)) {
      this.#ack(call, 1, String(PRICE + 1n));
    }
    // The same each time that the JobCall is done.
    const units = call.byUse ? (PRICE * BigInt((callId * 7) % 11)) / 10n : undefined;
    const charge = units === undefined || units > PRICE ? undefined : String(units);
    if (call.byUse) laws.asks(body, charge === undefined ? PRICE : BigInt(charge));
    this.#ack(call, MAX_ACKS, charge);
    if (simulation.fault(`${name} acks twice`, 0.05)) this.#ack(call, 1, charge);
  }

  #ack(call: ClaimedCall, left: number, units?: string): void {
    const { simulation, laws } = this.#parts;
    if (left === 0) return;
    const again = () => simulation.at(700, simulation.world, () => this.#ack(call, left - 1, units));
    const { callId, leaseToken } = call;
    const mayFinish = laws.mayFinish(call);
    this.#ask(
      { acks: [{ callId: BigInt(callId), leaseToken, ...(units && { charge: charge(units) }) }] },
      ([status]) => {
        if (status !== LeaseStatus.DONE) return;
        laws.done(callId, mayFinish);
        if (BigInt(units ?? 0) > PRICE)
          simulation.break(`JobCall ${callId} was charged more than its ceiling`);
      },
      again,
    );
  }

  #ask(
    message: Parameters<Running["leaseRequests"]["carryOut"]>[0],
    onAnswer: (statuses: readonly LeaseStatus[]) => void = () => undefined,
    onLost: () => void = () => undefined,
  ): void {
    const { simulation, replicas, name } = this.#parts;
    const goesElsewhere = simulation.random(`${name} goes elsewhere`) < 0.2;
    const replica = goesElsewhere ? simulation.pick(`${name} chooses`, replicas) : this.#parts.replica;
    const gateway = replica.running;
    if (gateway === undefined) {
      onLost();
      return;
    }
    let isOver = false;
    const once = (run: () => void) => {
      if (isOver) return;
      isOver = true;
      run();
    };
    simulation.at(simulation.delay(`from ${name}`, 0.2, 20), gateway.process, () => {
      gateway.leaseRequests
        .carryOut(message, () => undefined)
        .then(
          (statuses) =>
            simulation.at(simulation.delay(`to ${name}`, 0.2, 20), simulation.world, () =>
              once(() => onAnswer([...statuses.acks, ...statuses.nacks, ...statuses.extends])),
            ),
          () => simulation.at(1, simulation.world, () => once(onLost)),
        );
    });
    simulation.at(1_000, simulation.world, () => once(onLost));
  }

  #disconnect(from: Running): void {
    const { simulation } = this.#parts;
    const stream = this.#stream;
    if (stream?.gateway !== from) return;
    this.#stream = undefined;
    simulation.at(1, from.process, () => from.dispatcher.unsubscribe(stream.subscription));
  }
}

function charge(units: string) {
  return create(ChargeSchema, { amount: { case: "units", value: units } });
}
