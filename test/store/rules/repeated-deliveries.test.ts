import { expect, test } from "vitest";
import { type KnownDelivery, repeatOf } from "../../../src/store/rules/repeated-deliveries.ts";

const delivery = {
  keys: [
    { key: "id", identifies: true },
    { key: "signature", identifies: true },
    { key: "latest", identifies: false },
  ],
  bodyHash: "hash",
  windowMs: 1000,
};

const repeatAmong = (known: Record<string, KnownDelivery>) => repeatOf(delivery, (key) => known[key]);

test("A delivery is new when no key that identifies it is known", () => {
  expect(repeatAmong({})).toBeUndefined();
  expect(repeatAmong({ latest: { body_hash: "hash", call_id: 1 } })).toBeUndefined();
});

test("Any known key with the same body makes a duplicate of the call under the first one", () => {
  const known = { body_hash: "hash", call_id: 7 };
  expect(repeatAmong({ signature: known })).toEqual({ kind: "duplicate", callId: 7 });
  expect(repeatAmong({ signature: known, id: { ...known, call_id: 6 } })).toEqual({
    kind: "duplicate",
    callId: 6,
  });
});

test("One known key with another body makes a conflict", () => {
  const same = { body_hash: "hash", call_id: 7 };
  expect(repeatAmong({ id: same, signature: { body_hash: "other", call_id: 7 } })).toEqual({
    kind: "conflict",
  });
});
