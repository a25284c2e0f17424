import { expect, test } from "vitest";
import { requiresIdentifier } from "../../../src/parts/payment-identifier/config.ts";
import { configOf, mistakesOf, TOKEN, X402 } from "../../config/config-folder.ts";

const file = (...jobs: readonly string[]) =>
  `service_id = 1\n${X402}${TOKEN}${jobs.map((keys, i) => `[[jobs]]\njob_index = ${i}\n${keys}\n`).join("")}`;

test("A job is sold only with an identifier if its entry says so", async () => {
  const keys = ["require_payment_identifier = true", "require_payment_identifier = false", ""];
  const { x402 } = await configOf(file(...keys));
  expect(x402?.jobs?.map(requiresIdentifier)).toEqual([true, false, false]);
});

test("Another value than true or false is a mistake", async () => {
  expect(await mistakesOf(file("require_payment_identifier = 1"))).toEqual([
    expect.objectContaining({ message: expect.stringMatching(/^is 1; expected true or false/) }),
  ]);
});
