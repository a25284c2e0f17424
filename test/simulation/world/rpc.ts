import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { FRAME_HEADER_BYTES } from "../../../src/grpc/message-reader.ts";
import { runnerServiceOf } from "./grpc-server.ts";
import { ServerStream } from "./server-stream.ts";
import type { Process, Simulation } from "./simulation.ts";

const METHODS = "/jobgate.v1.RunnerService/";
/** Times after which pings find a connection that was cut without a word. */
const [MIN_SILENCE_MS, MAX_SILENCE_MS] = [10_000, 15_000];
/** Bytes that are sent ahead of a reader. */
const WINDOW_BYTES = 16_384;
const UNAVAILABLE = 14;

/** Runner's end of a call. */
export interface RpcListener<Message> {
  /** Decodes what a gateway sends, when it sends it. @param isEnding the gateway knows that its runner sends nothing more */
  read(message: Buffer, isEnding: boolean): Message;
  onMessage(message: Message): void;
  /** Called last. @param status gRPC's; 14 for a connection that was lost */
  onEnd(status: number): void;
}

/**
 * A call to a gateway's runner service. What is sent arrives late, in order and in pieces, up to the moment at which the
 * connection is cut; each side finds out about that at another time.
 */
export class Rpc<Message> {
  readonly #simulation: Simulation;
  readonly #gateway: Process;
  readonly #name: string;
  readonly #listener: RpcListener<Message>;
  readonly #server: ServerStream;
  /** When the last message of each direction arrives: none overtake it. */
  #upAt = 0;
  #downAt = 0;
  #unreadBytes = 0;
  /** Time before which the runner reads nothing. */
  #readsAt = 0;
  #isOver = false;
  #isCut = false;

  constructor(
    simulation: Simulation,
    call: {
      readonly gateway: Process;
      readonly method: string;
      /** Name of the runner. */
      readonly name: string;
      readonly listener: RpcListener<Message>;
    },
  ) {
    this.#simulation = simulation;
    this.#gateway = call.gateway;
    this.#name = call.name;
    this.#listener = call.listener;
    this.#server = new ServerStream(simulation, call.gateway, {
      onMessage: (message, onTaken) => this.#sent(message, onTaken),
      onEnd: (status) => this.#down(() => this.#over(status)),
      onLateWrite: () =>
        simulation.break(`a gateway wrote to a stream of ${this.#name} that it knew to be over`),
    });
    const headers = { ":path": METHODS + call.method, "content-type": "application/grpc+proto" };
    this.#up(() => {
      const service = runnerServiceOf(this.#gateway);
      const stream = this.#server as unknown as ServerHttp2Stream;
      if (!service?.serve(stream, headers as IncomingHttpHeaders)) this.#down(() => this.#over(UNAVAILABLE));
    });
  }

  /** Sends a message, now and then in two pieces. */
  send(message: Uint8Array): void {
    const frame = Buffer.alloc(FRAME_HEADER_BYTES + message.byteLength);
    frame.writeUInt32BE(message.byteLength, 1);
    frame.set(message, FRAME_HEADER_BYTES);
    const cutAt = this.#simulation.random(`${this.#name} cuts a message`) * 4 * frame.byteLength;
    const pieces = cutAt < frame.byteLength ? [frame.subarray(0, cutAt), frame.subarray(cutAt)] : [frame];
    for (const piece of pieces) this.#up(() => this.#server.receive(piece));
  }

  /** Sends nothing more, and still reads. */
  halfClose(): void {
    this.#up(() => this.#server.receive(undefined));
  }

  /** Ends the call, and tells the gateway. */
  cancel(): void {
    this.#isOver = true;
    this.#up(() => this.#server.lose());
  }

  /** Cuts the connection. Each side finds out soon, or when its pings are not answered. */
  cut(): void {
    const run = this.#simulation;
    if (this.#isOver || this.#isCut) return;
    this.#isCut = true;
    const delayOf = (side: string) =>
      run.random(`${this.#name} is cut: ${side} is told`) < 0.5
        ? run.delay(`${this.#name} is cut: ${side} learns`, 1, 100)
        : run.delay(`${this.#name} is cut: ${side} pings`, MIN_SILENCE_MS, MAX_SILENCE_MS);
    run.at(delayOf("the gateway"), this.#gateway, () => this.#server.lose());
    run.at(delayOf("the runner"), run.world, () => this.#over(UNAVAILABLE));
  }

  /** Tells the runner that the gateway has died. */
  reset(): void {
    const run = this.#simulation;
    run.at(run.delay(`${this.#name} is reset`, 1, 50), run.world, () => this.#over(UNAVAILABLE));
  }

  /** Lets the runner read nothing for some time. */
  stopReading(ms: number): void {
    this.#readsAt = this.#simulation.now + ms;
  }

  #sent(bytes: Buffer, onTaken: () => void): void {
    const run = this.#simulation;
    const message = this.#listener.read(bytes, this.#server.hasReadEnd);
    const hasRoom = this.#unreadBytes < WINDOW_BYTES;
    this.#unreadBytes += bytes.byteLength;
    run.at(0.1 + (hasRoom ? 0 : Math.max(0, this.#readsAt - run.now)), this.#gateway, onTaken);
    this.#down(() => {
      this.#unreadBytes -= bytes.byteLength;
      if (!this.#isOver) this.#listener.onMessage(message);
    });
  }

  #up(arrive: () => void): void {
    const run = this.#simulation;
    this.#upAt = Math.max(this.#upAt, run.now + run.delay(`from ${this.#name}`, 0.2, 20));
    run.at(this.#upAt - run.now, this.#gateway, () => {
      if (!this.#isCut) arrive();
    });
  }

  #down(arrive: () => void): void {
    const run = this.#simulation;
    const soonest = run.now + run.delay(`to ${this.#name}`, 0.2, 20);
    this.#downAt = Math.max(this.#downAt, this.#readsAt, soonest);
    run.at(this.#downAt - run.now, run.world, () => {
      if (!this.#isCut) arrive();
    });
  }

  #over(status: number): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.onEnd(status);
  }
}
