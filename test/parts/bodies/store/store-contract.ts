import { describe, expect, test } from "vitest";
import { BODIES } from "../../../../src/parts/bodies/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import { acceptId, claimOne } from "../../../store/store-fixtures.ts";

export function describeBodies(given: Given): void {
  const find = async (callId: number, most = 100) => {
    const found = await given.store.of(BODIES).findBody(callId, most);
    return found && { text: Buffer.from(found.bytes).toString(), size: found.size };
  };

  describe("bodies for operators", () => {
    test("The beginning of a body is read without its metadata, with the size of the whole", async () => {
      const callId = await acceptId(given.store, {
        metadata: { head: "the metadata" },
        body: Buffer.from("0123456789"),
      });
      expect(await find(callId)).toEqual({ text: "0123456789", size: 10 });
      expect(await find(callId, 4)).toEqual({ text: "0123", size: 10 });
      expect(await find(await acceptId(given.store, { body: Buffer.alloc(0) }))).toEqual({
        text: "",
        size: 0,
      });
    });

    test("A dead letter has its body, and a call that is done or never was has none", async () => {
      const dead = await acceptId(given.store);
      await given.store.fail(await claimOne(given.store), "no ink");
      expect(await find(dead)).toEqual({ text: "body", size: 4 });
      const done = await acceptId(given.store);
      await given.store.ack(await claimOne(given.store), {
        body: Buffer.from("42"),
        contentType: "text/plain",
      });
      expect(await find(done)).toBeUndefined();
      expect(await find(done + 1)).toBeUndefined();
    });
  });
}
