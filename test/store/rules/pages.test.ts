import { expect, test } from "vitest";
import { mergePage } from "../../../src/store/rules/pages.ts";
import { idsOf } from "../contract/given.ts";

const part = (callIds: readonly number[], floor?: number) => ({
  items: callIds.map((callId) => ({ callId })),
  floor,
});

test("A page has the newest entries of all parts, and goes on after its last", () => {
  const page = mergePage([part([9, 5, 2], 2), part([8, 7, 1])], 3);
  expect([idsOf(page.items), page.next]).toEqual([[9, 8, 7], 7]);
});

test("A page ends where one part stopped looking, because it may have more below", () => {
  const page = mergePage([part([9], 6), part([8, 7, 5, 1])], 10);
  expect([idsOf(page.items), page.next]).toEqual([[9, 8, 7], 6]);
  expect(mergePage([part([], 6), part([5, 1])], 10)).toEqual({ items: [], next: 6 });
});

test("The last page has nothing after it", () => {
  expect(mergePage([part([3]), part([4])], 2)).toEqual({ items: [{ callId: 4 }, { callId: 3 }] });
  expect(mergePage([], 2)).toEqual({ items: [] });
});

test("An entry that moved while the parts were read is in the page once, as the later part has it", () => {
  const moved = { callId: 3, state: "done" };
  expect(mergePage([{ items: [{ callId: 3, state: "leased" }] }, { items: [moved] }], 5)).toEqual({
    items: [moved],
  });
});
