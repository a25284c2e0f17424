import { Buffer } from "node:buffer";
import { expect, test } from "vitest";
import { decodeJobCall, encodeDelivery, encodeJobCall } from "../../src/delivery/job-call-codec.ts";

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
  enqueuedAt: 1_700_000_000_123,
  leaseExpiresAt: 1_700_000_060_456,
  suspect: false,
};

test("The stored bytes hold everything known at acceptance, the body byte for byte", () => {
  const call = decodeJobCall(encoded);
  expect(call.jobId).toBe(2n ** 64n - 1n);
  expect(call.serviceId).toBe(42n);
  expect(Buffer.from(call.body).equals(body)).toBe(true);
  expect(call.metadata).toEqual({ "X-WEBHOOK-ORIGIN": "webhook", "X-CHAIN-SERVICE-ID": "42" });
});

test("A delivery begins with the stored bytes, untouched", () => {
  expect(encodeDelivery(claimed).subarray(0, encoded.length).equals(encoded)).toBe(true);
});

test("A delivery adds the ID, the lease, the attempt and the times to the stored bytes", () => {
  const call = decodeJobCall(encodeDelivery(claimed));
  expect(call).toMatchObject({
    callId: BigInt(claimed.callId),
    jobId: 2n ** 64n - 1n,
    serviceId: 42n,
    leaseToken: "token",
    attempt: 3,
    enqueuedAt: { seconds: 1_700_000_000n, nanos: 123_000_000 },
    leaseExpiresAt: { seconds: 1_700_000_060n, nanos: 456_000_000 },
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
  expect(decodeJobCall(encodeDelivery({ ...claimed, encoded: stored, callId: 5 })).metadata).toEqual({
    "X-CHAIN-CALL-ID": "5",
  });
});
