import { expect, it } from "vitest";
import { KeptInputs } from "../../../src/parts/a2a/kept-inputs.ts";

const inputOf = (bytes: number) => ({
  input: { method: "POST", path: "/", query: "", contentType: undefined, body: new Uint8Array(bytes) },
  headers: {},
});

it("Inputs take at most so many bytes: the oldest go first, and an input that is larger is not kept", () => {
  const inputs = new KeptInputs(100_000);
  for (let i = 0; i < 100; i++) inputs.keep(`small ${i}`, inputOf(1_000));
  const kept = Array.from({ length: 100 }, (_, i) => inputs.find(`small ${i}`) !== undefined);
  const first = kept.indexOf(true);
  expect(kept.slice(first)).not.toContain(false);
  expect(100 - first).toBeGreaterThan(40);
  expect(100 - first).toBeLessThan(50);
  inputs.keep("large", inputOf(100_000));
  expect(inputs.find("large")).toBeUndefined();
  expect(inputs.find("small 99")).toBeDefined();
});

it("A thousand headers of an input are counted like its body", () => {
  const inputs = new KeptInputs(100_000);
  const headers = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`x-${i}`, "x".repeat(100)]));
  inputs.keep("headers", { ...inputOf(0), headers });
  expect(inputs.find("headers")).toBeUndefined();
});
