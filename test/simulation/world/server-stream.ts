import { EventEmitter } from "node:events";
import type { IncomingHttpHeaders } from "node:http2";
import { FRAME_HEADER_BYTES } from "../../../src/grpc/message-reader.ts";
import type { Process, Simulation } from "./simulation.ts";

/** Receives what a gateway does with a stream. */
export interface StreamListener {
  /** @param onTaken to be called once the transport has taken the message */
  onMessage(message: Buffer, onTaken: () => void): void;
  /** @param status gRPC's */
  onEnd(status: number): void;
  /** The gateway wrote although it knew that the stream was closed. */
  onLateWrite(): void;
}

/** Takes the place of a `ServerHttp2Stream`: the members that the gateway's calls use. */
export class ServerStream extends EventEmitter {
  readonly #simulation: Simulation;
  readonly #gateway: Process;
  readonly #listener: StreamListener;
  readonly session = { socket: { remoteAddress: "10.0.0.2", remotePort: 1 } };
  headersSent = false;
  destroyed = false;
  closed = false;
  /** The gateway knows that its runner sends nothing more. */
  hasReadEnd = false;
  #status = 0;
  #isPaused = false;
  #hasEnded = false;
  /** Pieces that wait until the gateway reads; undefined is the end. */
  #received: (Buffer | undefined)[] = [];
  #written: Buffer = Buffer.alloc(0);

  constructor(simulation: Simulation, gateway: Process, listener: StreamListener) {
    super();
    this.#simulation = simulation;
    this.#gateway = gateway;
    this.#listener = listener;
  }

  /** Hands the gateway a piece of what its runner sends. @param chunk undefined at the end */
  receive(chunk: Buffer | undefined): void {
    if (this.destroyed) return;
    this.#received.push(chunk);
    this.#read();
  }

  /** Tells the gateway that the stream is gone. */
  lose(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.closed = true;
    this.emit("close");
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#read();
  }

  respond(headers: IncomingHttpHeaders, { endStream = false } = {}): void {
    this.headersSent = true;
    if (!endStream) return;
    this.sendTrailers(headers);
    this.end();
  }

  sendTrailers(trailers: IncomingHttpHeaders): void {
    this.#status = Number(trailers["grpc-status"]);
  }

  cork(): void {}

  uncork(): void {}

  write(chunk: Uint8Array, onTaken?: () => void): void {
    if (this.destroyed || this.#hasEnded) {
      this.#listener.onLateWrite();
      return;
    }
    this.#written =
      this.#written.byteLength === 0 ? Buffer.from(chunk) : Buffer.concat([this.#written, chunk]);
    for (;;) {
      const message = firstMessage(this.#written);
      if (message === undefined) break;
      this.#written = this.#written.subarray(FRAME_HEADER_BYTES + message.byteLength);
      const isLast = this.#written.byteLength === 0;
      this.#listener.onMessage(message, () => {
        if (isLast && !this.destroyed) onTaken?.();
      });
    }
  }

  end(chunk?: Uint8Array): void {
    if (chunk !== undefined) this.write(chunk);
    if (this.#hasEnded || this.destroyed) return;
    this.#hasEnded = true;
    this.emit("wantTrailers");
    this.#listener.onEnd(this.#status);
    this.#simulation.at(1, this.#gateway, () => this.lose());
  }

  #read(): void {
    while (!this.#isPaused && this.#received.length > 0) {
      const chunk = this.#received.shift();
      if (chunk === undefined) this.hasReadEnd = true;
      if (chunk === undefined) this.emit("end");
      else this.emit("data", chunk);
    }
  }
}

function firstMessage(bytes: Buffer): Buffer | undefined {
  if (bytes.byteLength < FRAME_HEADER_BYTES) return undefined;
  const end = FRAME_HEADER_BYTES + bytes.readUInt32BE(1);
  return end > bytes.byteLength ? undefined : bytes.subarray(FRAME_HEADER_BYTES, end);
}
