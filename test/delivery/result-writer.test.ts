import { expect, test } from "vitest";
import { MAX_RESULT_BYTES, RESULT_CHUNK_BYTES } from "../../src/core/job-call.ts";
import { ResultWriter } from "../../src/delivery/result-writer.ts";
import type { LeaseOutcome } from "../../src/store/contract/work-queue.ts";

const LEASE = { callId: 1, leaseToken: "token" };

function writerInto(outcome: () => LeaseOutcome = () => "done") {
  const chunks: Buffer[] = [];
  const appendResult = async (_lease: unknown, place: number, bytes: Uint8Array) => {
    const became = outcome();
    if (became === "done") chunks[place] = Buffer.from(bytes);
    return became;
  };
  return { chunks, writer: new ResultWriter({ appendResult }, LEASE) };
}

test("A result of up to 1 MiB is left to the ack", async () => {
  const { chunks, writer } = writerInto();
  expect(await writer.write(Buffer.alloc(MAX_RESULT_BYTES - 1, "a"))).toBe("done");
  expect(await writer.write(Buffer.from("b"))).toBe("done");
  const { outcome, stored } = await writer.end();
  expect([outcome, stored?.body.byteLength, stored?.storedBytes]).toEqual([
    "done",
    MAX_RESULT_BYTES,
    undefined,
  ]);
  expect(chunks).toEqual([]);
});

test.each([1, 1_000, RESULT_CHUNK_BYTES, 3 * MAX_RESULT_BYTES])(
  "A larger result that arrives in pieces of %d KiB at most is stored in whole chunks and a rest",
  async (piece) => {
    const bytes = Buffer.from(Array.from({ length: MAX_RESULT_BYTES + 5 }, (_, index) => index % 251));
    const { chunks, writer } = writerInto();
    const size = Math.max(piece, 1_000);
    for (let at = 0; at < bytes.length; at += size) await writer.write(bytes.subarray(at, at + size));
    const { stored } = await writer.end();
    expect(stored).toEqual({ body: new Uint8Array(), storedBytes: bytes.length });
    expect(chunks.slice(0, -1).every(({ length }) => length === RESULT_CHUNK_BYTES)).toBe(true);
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
  },
);

test("A lost lease ends the result", async () => {
  const { writer } = writerInto(() => "lease_lost");
  expect(await writer.write(Buffer.alloc(MAX_RESULT_BYTES + 1))).toBe("lease_lost");
  expect(await writer.end()).toEqual({ outcome: "lease_lost", stored: undefined });
});
