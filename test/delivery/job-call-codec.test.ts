import { Buffer } from "node:buffer";
import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeJobCall, encodeDelivery, encodeJobCall } from "../../src/delivery/job-call-codec.ts";
import { JobCallSchema } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { anyCharacter } from "../helpers/any-character.ts";

const body = Buffer.from([0, 255, 10, 34, 13]);
const encoded = encodeJobCall({
  origin: "webhook",
  jobId: 2n ** 64n - 1n,
  serviceId: 42n,
  body,
  metadata: { "X-WEBHOOK-ORIGIN": "webhook", "X-CHAIN-SERVICE-ID": "42" },
});
const claimed = {
  callId: 2 ** 53 - 1,
  leaseToken: "token",
  encoded,
  attempt: 3,
  forgiven: 0,
  enqueuedAt: 1_700_000_000_123,
  leaseExpiresAt: 1_700_000_060_456,
  suspect: false,
  deferred: false,
};

test("The stored bytes hold everything known at acceptance, the body byte for byte", () => {
  const call = decodeJobCall(encoded);
  expect(call.jobId).toBe(2n ** 64n - 1n);
  expect(call.serviceId).toBe(42n);
  expect(Buffer.from(call.body).equals(body)).toBe(true);
  expect(call.metadata).toEqual({ "X-WEBHOOK-ORIGIN": "webhook", "X-CHAIN-SERVICE-ID": "42" });
});

test("A delivery begins with the stored bytes, which are not copied", () => {
  expect(encodeDelivery(claimed, 500)[0]).toBe(encoded);
});

test("A delivery adds the ID, the lease, the attempt and the times to the stored bytes", () => {
  const call = decodeJobCall(Buffer.concat(encodeDelivery(claimed, 500)));
  expect(call).toMatchObject({
    callId: BigInt(claimed.callId),
    jobId: 2n ** 64n - 1n,
    serviceId: 42n,
    leaseToken: "token",
    attempt: 3,
    enqueuedAt: { seconds: 1_700_000_000n, nanos: 123_000_000 },
    leaseExpiresAt: { seconds: 1_700_000_060n, nanos: 456_000_000 },
    leaseSecs: 0.5,
  });
  expect(call.metadata).toEqual({
    "X-WEBHOOK-ORIGIN": "webhook",
    "X-CHAIN-SERVICE-ID": "42",
    "X-CHAIN-CALL-ID": "9007199254740991",
  });
  expect(Buffer.from(call.body).equals(body)).toBe(true);
});

test("Stored metadata cannot replace the call's own fields", () => {
  const stored = encodeJobCall({
    origin: "webhook",
    jobId: 1n,
    serviceId: 1n,
    body: Buffer.alloc(0),
    metadata: { "X-CHAIN-CALL-ID": "1" },
  });
  const delivery = Buffer.concat(encodeDelivery({ ...claimed, encoded: stored, callId: 5 }, 60_000));
  expect(decodeJobCall(delivery).metadata).toEqual({ "X-CHAIN-CALL-ID": "5" });
});

test("Metadata of a request cannot replace jobgate's own", () => {
  const call = decodeJobCall(
    encodeJobCall({
      ...{ origin: "webhook", jobId: 1n, serviceId: 1n, body },
      metadata: { "X-CHAIN-SERVICE-ID": "1" },
      requestMetadata: [
        ["X-CHAIN-SERVICE-ID", "2"],
        ["X-HTTP-CONTENT-TYPE", "text/plain"],
      ],
    }),
  );
  expect(call.metadata).toEqual({ "X-CHAIN-SERVICE-ID": "1", "X-HTTP-CONTENT-TYPE": "text/plain" });
});

test("Frozen metadata is encoded for each job and service of its own", () => {
  const metadata = Object.freeze({ "X-CHAIN-SERVICE-ID": "1" });
  const encode = (jobId: bigint, serviceId: bigint, text: string) =>
    decodeJobCall(encodeJobCall({ origin: "webhook", jobId, serviceId, body: Buffer.from(text), metadata }));
  expect(encode(1n, 1n, "first")).toMatchObject({
    jobId: 1n,
    serviceId: 1n,
    body: Buffer.from("first"),
    metadata,
  });
  expect(encode(1n, 1n, "more")).toMatchObject({
    jobId: 1n,
    serviceId: 1n,
    body: Buffer.from("more"),
    metadata,
  });
  expect(encode(2n, 1n, "")).toMatchObject({ jobId: 2n, serviceId: 1n, metadata });
  expect(encode(2n, 3n, "")).toMatchObject({ jobId: 2n, serviceId: 3n, metadata });
});

test("Metadata that is not frozen may change between JobCalls", () => {
  const metadata: Record<string, string> = { name: "old" };
  const encode = () =>
    decodeJobCall(encodeJobCall({ origin: "webhook", jobId: 1n, serviceId: 1n, body, metadata })).metadata;
  expect(encode()).toEqual({ name: "old" });
  Object.assign(metadata, { name: "new" });
  expect(encode()).toEqual({ name: "new" });
});

test("A job ID beyond 64 bits is refused", () => {
  const call = { origin: "webhook", serviceId: 1n, body, metadata: {} } as const;
  expect(() => encodeJobCall({ ...call, jobId: 2n ** 64n })).toThrow(RangeError);
  expect(() => encodeJobCall({ ...call, jobId: -1n })).toThrow(RangeError);
});

/** Whole numbers of each length that a varint can have. */
function varints(max: bigint): fc.Arbitrary<bigint> {
  const lengths = Array.from({ length: 10 }, (_, i) => 2n ** (7n * BigInt(i)));
  const edges = [0n, max, ...lengths.flatMap((at) => [at - 1n, at])].filter((edge) => edge <= max);
  return fc.oneof(fc.constantFrom(...edges), fc.bigInt({ min: 0n, max }));
}

const numbers = (max = Number.MAX_SAFE_INTEGER) => varints(BigInt(max)).map(Number);
const u64 = varints(2n ** 64n - 1n);
/** All of Unicode, and lengths whose own varint has two bytes. */
const text = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.string({ unit: anyCharacter, minLength: 120, maxLength: 140 }),
);
const jobCalls = fc.record({
  origin: fc.constant("webhook" as const),
  jobId: u64,
  serviceId: u64,
  body: fc.oneof(
    fc.uint8Array(),
    fc.uint8Array({ minLength: 120, maxLength: 140 }),
    fc.constant(Buffer.alloc(20_000)),
  ),
  metadata: fc.dictionary(text, text),
  requestMetadata: fc.array(fc.tuple(text, text)),
});

/** Makes encodings comparable: fields may come in any order. */
function canonical(encoded: Uint8Array): string {
  return Buffer.from(toBinary(JobCallSchema, decodeJobCall(encoded))).toString("hex");
}

test("Decodes to what protobuf-es encodes", () => {
  fc.assert(
    fc.property(jobCalls, fc.boolean(), ({ metadata: free, ...call }, isFrozen) => {
      const metadata = isFrozen ? Object.freeze(free) : free;
      const { jobId, serviceId, body, requestMetadata } = call;
      const all = { ...Object.fromEntries(requestMetadata), ...metadata };
      const plain = toBinary(JobCallSchema, create(JobCallSchema, { jobId, serviceId, body, metadata: all }));
      for (const encoded of [encodeJobCall({ ...call, metadata }), encodeJobCall({ ...call, metadata })]) {
        expect(canonical(encoded)).toBe(canonical(plain));
      }
    }),
  );
});

const deliveries = fc.record({
  callId: numbers(),
  leaseToken: text,
  attempt: numbers(2 ** 32 - 1),
  // The year 9999 is the last that a Timestamp can have.
  enqueuedAt: numbers(253_402_300_799_999),
  leaseExpiresAt: numbers(253_402_300_799_999),
  leaseMs: numbers(2 ** 31 - 1),
});
/** Fields that a later version of the message may have: varint, 64 bits, bytes and 32 bits. */
const unknownFields = Buffer.from("f80101" + "f9010807060504030201" + "fa0102abcd" + "fd0104030201", "hex");

test("Delivers what protobuf-es would merge, unknown fields included", () => {
  fc.assert(
    fc.property(jobCalls, deliveries, fc.boolean(), (call, delivery, hasUnknown) => {
      const stored = Buffer.concat([encodeJobCall(call), hasUnknown ? unknownFields : Buffer.alloc(0)]);
      const { callId, enqueuedAt, leaseExpiresAt, leaseMs, ...rest } = delivery;
      const added = create(JobCallSchema, {
        ...rest,
        callId: BigInt(callId),
        metadata: { "X-CHAIN-CALL-ID": String(callId) },
        enqueuedAt: timestampFromMs(enqueuedAt),
        leaseExpiresAt: timestampFromMs(leaseExpiresAt),
        leaseSecs: leaseMs / 1000,
      });
      const plain = Buffer.concat([stored, toBinary(JobCallSchema, added)]);
      const encoded = Buffer.concat(
        encodeDelivery(
          { ...delivery, encoded: stored, forgiven: 0, suspect: false, deferred: false },
          leaseMs,
        ),
      );
      expect(canonical(encoded)).toBe(canonical(plain));
      if (hasUnknown) expect(decodeJobCall(encoded).$unknown).toHaveLength(4);
    }),
  );
});
