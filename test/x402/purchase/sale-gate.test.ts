import { expect, test } from "vitest";
import { passGates, type SaleGate } from "../../../src/x402/purchase/sale-gate.ts";

const ENTERING = { job: { serviceId: 1n, jobIndex: 0 }, client: "192.0.2.1", payer: "0xabc" };

function gate(name: string, log: string[], refusal?: Error): SaleGate {
  return {
    requireOpen: () => undefined,
    async enter() {
      log.push(`${name} entered`);
      if (refusal !== undefined) throw refusal;
      return { metadata: [[name, "1"]], leave: () => void log.push(`${name} left`) };
    },
  };
}

test("A sale has the metadata of every gate, and leaves each once it has ended", async () => {
  const log: string[] = [];
  const metadata = await passGates([gate("a", log), gate("b", log)], ENTERING, async (all) => {
    log.push("sold");
    return all;
  });
  expect(metadata).toEqual([
    ["a", "1"],
    ["b", "1"],
  ]);
  expect(log).toEqual(["a entered", "b entered", "sold", "b left", "a left"]);
});

test("A refusal of one gate leaves those before it, and sells nothing", async () => {
  const log: string[] = [];
  const refusal = new Error("full");
  const sold = passGates([gate("a", log), gate("b", log, refusal)], ENTERING, async () => "sold");
  await expect(sold).rejects.toBe(refusal);
  expect(log).toEqual(["a entered", "b entered", "a left"]);
});
