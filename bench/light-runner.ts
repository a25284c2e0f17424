import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  AckRequestSchema,
  GatewayMessageSchema,
  type JobCall,
  JobCallSchema,
  RunnerMessageSchema,
  SubscribeRequestSchema,
} from "../src/gen/jobgate/v1/runner_pb.ts";

const FRAME_HEADER_BYTES = 5;

/** A runner on bare HTTP/2: a third of the CPU of a client of grpc-js, which would be the bottleneck. */
export class LightRunner {
  readonly #session: ClientHttp2Session;

  constructor(address: string) {
    this.#session = connect(`http://${address}`);
  }

  /** Resolves when the stream is open. */
  async subscribe(maxInFlight: number, onCall: (call: JobCall) => void): Promise<void> {
    const stream = this.#call("Subscribe");
    stream.end(framed(SubscribeRequestSchema, { subscriber: "bench", maxInFlight }));
    readMessages(stream, (message) => onCall(fromBinary(JobCallSchema, message)));
    await once(stream, "response");
  }

  /** Resolves when the stream is open. `ack` sends one message, and resolves with its Statuses. */
  async work(maxInFlight: number, onCall: (call: JobCall) => void): Promise<Pick<LightRunner, "ack">> {
    const stream = this.#call("Work");
    const answers = new Map<bigint, () => void>();
    let sequence = 0n;
    stream.write(framed(RunnerMessageSchema, { subscribe: { subscriber: "bench", maxInFlight } }));
    readMessages(stream, (message) => {
      const { jobCalls, statuses } = fromBinary(GatewayMessageSchema, message);
      for (const call of jobCalls) onCall(call);
      for (const { sequence: answered } of statuses) {
        answers.get(answered)?.();
        answers.delete(answered);
      }
    });
    await once(stream, "response");
    return {
      ack(calls) {
        sequence += 1n;
        stream.write(framed(RunnerMessageSchema, { sequence, acks: calls.map(ackOf) }));
        return new Promise((resolve) => answers.set(sequence, resolve));
      },
    };
  }

  /** Resolves when the Ack is answered; rejects unless its status is OK. */
  ack(calls: readonly JobCall[]): Promise<void> {
    const stream = this.#call("Ack");
    stream.end(framed(AckRequestSchema, { acks: calls.map(ackOf) }));
    return new Promise((resolve, reject) => {
      stream.on("trailers", ({ "grpc-status": status }) =>
        Number(status) === 0 ? resolve() : reject(new Error(`Ack ended with status ${status}`)),
      );
      stream.on("close", () => reject(new Error("Ack ended without a status")));
      stream.resume();
    });
  }

  close(): void {
    this.#session.destroy();
  }

  #call(method: string): ClientHttp2Stream {
    const stream = this.#session.request({
      ":method": "POST",
      ":path": `/jobgate.v1.RunnerService/${method}`,
      "content-type": "application/grpc",
      te: "trailers",
    });
    return stream.on("error", () => undefined);
  }
}

function ackOf({ callId, leaseToken }: JobCall): Pick<JobCall, "callId" | "leaseToken"> {
  return { callId, leaseToken };
}

function framed<Schema extends DescMessage>(schema: Schema, init: MessageInitShape<Schema>): Buffer {
  const message = toBinary(schema, create(schema, init));
  const header = Buffer.alloc(FRAME_HEADER_BYTES);
  header.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([header, message]);
}

function readMessages(stream: ClientHttp2Stream, onMessage: (message: Buffer) => void): void {
  let pending: Buffer = Buffer.alloc(0);
  stream.on("data", (chunk: Buffer) => {
    pending = pending.byteLength === 0 ? chunk : Buffer.concat([pending, chunk]);
    let start = 0;
    while (pending.byteLength - start >= FRAME_HEADER_BYTES) {
      const end = start + FRAME_HEADER_BYTES + pending.readUInt32BE(start + 1);
      if (end > pending.byteLength) break;
      onMessage(pending.subarray(start + FRAME_HEADER_BYTES, end));
      start = end;
    }
    pending = pending.subarray(start);
  });
}
