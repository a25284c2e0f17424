import { describe, expect, test } from "vitest";
import { TASKS } from "../../../../src/parts/a2a/store/module.ts";
import type { Given } from "../../../store/contract/given.ts";
import { oneTimeNonce, paidCall, paymentIntent, START_MS } from "../../../store/store-fixtures.ts";

export function describeTasks(given: Given): void {
  describe("tasks", () => {
    const nonce = oneTimeNonce("a2a one", START_MS / 1000 + 1_000);
    const ledger = () => given.store.of(TASKS);
    const begin = (number: number) =>
      given.store.beginPayment(paymentIntent(number, { oneTimeNonces: [nonce] }), paidCall());

    test("A task is found from the write that begins its payment, also after a restart, unless the payment fails", async () => {
      expect(await ledger().findTask(nonce.key)).toBeUndefined();
      const begun = await begin(1);
      const callId = begun.kind === "begun" ? begun.callId : undefined;
      await given.reopen();
      expect(await ledger().findTask(nonce.key)).toBe(callId);
      expect(await begin(2)).toMatchObject({ kind: "nonce_used" });
      await given.store.failPayment(paymentIntent(1).key, "{}", "nothing moved");
      expect(await ledger().findTask(nonce.key)).toBeUndefined();
      expect(await begin(2)).toMatchObject({ kind: "begun" });
    });

    test("A task that was cancelled has the JobCall 0, and cannot be paid for", async () => {
      expect(await given.store.useNonce(nonce)).toBe(true);
      expect(await ledger().findTask(nonce.key)).toBe(0);
      expect(await begin(1)).toMatchObject({ kind: "nonce_used" });
    });

    test("A JobCall is added to a task that has none", async () => {
      await ledger().addTask("a2a two", 7, nonce.expiresAt);
      await ledger().addTask("a2a two", 8, nonce.expiresAt);
      await given.reopen();
      expect(await ledger().findTask("a2a two")).toBe(7);
    });
  });
}
