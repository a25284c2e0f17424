import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  GatewayMessageSchema,
  LeaseStatus,
  type RunnerMessage,
  RunnerMessageSchema,
} from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { decodeAcks, encodeStatuses } from "../../../src/parts/work-stream/work-codec.ts";
import { anyCharacter } from "../../helpers/any-character.ts";

const u64 = fc.oneof(fc.bigInt({ min: 0n, max: 300n }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }));
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: anyCharacter }),
  fc.string({ minLength: 120, maxLength: 140 }),
);
const acks = fc.array(
  fc.record(
    {
      callId: u64,
      leaseToken: text,
      result: fc.record({ body: fc.uint8Array({ maxLength: 200 }), contentType: text }, { requiredKeys: [] }),
    },
    { requiredKeys: [] },
  ),
);
const messages = fc.record({ sequence: u64, acks }).map((init) => create(RunnerMessageSchema, init));
const isPlain = (value: bigint, text: string) => value < 2n ** 49n && /^[\0-\x7f]*$/.test(text);

const encode = (message: RunnerMessage) => Buffer.from(toBinary(RunnerMessageSchema, message));

/** The parts of a message that are read by hand. */
function ackParts({ sequence, acks }: Pick<RunnerMessage, "sequence" | "acks">) {
  return {
    sequence,
    acks: acks.map(({ callId, leaseToken, result }) => ({
      callId,
      leaseToken,
      result: result && { body: [...result.body], contentType: result.contentType },
    })),
  };
}

test("Reads acks as protobuf-es does", () => {
  fc.assert(
    fc.property(messages, (message) => {
      const decoded = decodeAcks(encode(message));
      const isUsual =
        isPlain(message.sequence, "") &&
        message.acks.every(({ callId, leaseToken, result }) =>
          isPlain(callId, leaseToken + (result?.contentType ?? "")),
        );
      if (isUsual) expect(ackParts(decoded as RunnerMessage)).toEqual(ackParts(message));
      else expect(decoded).toBeUndefined();
    }),
  );
});

test("Reads bytes that were changed as protobuf-es does, or leaves them to it", () => {
  const changes = fc.array(fc.record({ at: fc.nat(), byte: fc.nat(255) }), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(messages, changes, fc.nat(), (message, edits, cutAt) => {
      const bytes = encode(message);
      for (const { at, byte } of edits) bytes[at % Math.max(1, bytes.byteLength)] = byte;
      for (const changed of [bytes, bytes.subarray(0, cutAt % (bytes.byteLength + 1))]) {
        const decoded = decodeAcks(changed);
        if (decoded === undefined) continue;
        const expected = fromBinary(RunnerMessageSchema, changed);
        expect(ackParts(decoded as RunnerMessage)).toEqual(ackParts(expected));
        expect({ ...expected, sequence: 0n, acks: [] }).toEqual(create(RunnerMessageSchema));
      }
    }),
    { numRuns: 500 },
  );
});

test("Leaves messages that have more than acks to protobuf-es", () => {
  for (const init of [
    { subscribe: {} },
    { maxInFlight: 0 },
    { nacks: [{}] },
    { extends: [{}] },
    { lease: {} },
  ])
    expect(decodeAcks(encode(create(RunnerMessageSchema, init)))).toBeUndefined();
});

const statuses = fc.array(fc.constantFrom(LeaseStatus.DONE, LeaseStatus.LEASE_LOST, LeaseStatus.NOT_FOUND), {
  maxLength: 300,
});

test("Writes statuses as protobuf-es does", () => {
  const lists = fc.record({ acks: statuses, nacks: statuses, extends: statuses });
  fc.assert(
    fc.property(u64, lists, (sequence, answer) => {
      const expected = create(GatewayMessageSchema, { statuses: [{ sequence, ...answer }] });
      expect(encodeStatuses(sequence, answer).equals(toBinary(GatewayMessageSchema, expected))).toBe(true);
    }),
  );
});
