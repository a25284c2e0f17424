import {
  declarePaymentIdentifierExtension,
  validatePaymentIdentifier,
} from "@x402/extensions/payment-identifier";
import { describe, expect, it } from "vitest";
import { MistakeList } from "../../../src/config/mistakes.ts";
import { identifierKeys } from "../../../src/parts/payment-identifier/config.ts";
import { IdentifierTerms, requireIdentifier } from "../../../src/parts/payment-identifier/identifiers.ts";
import { VERSION_2 } from "../../../src/x402/wire/version.ts";
import { expectDocumented } from "../../helpers/documented-order.ts";
import { JOB, OTHER_VERSION } from "../../x402/payments.ts";
import { codeOf } from "./code-of.ts";

const ID = "order_0123456789";
const ANYWHERE = new MistakeList().at("jobs", 0);

describe("The rule of a job", () => {
  const { terms } = identifierKeys.claim({ requirePaymentIdentifier: true }, ANYWHERE, {})?.complete() ?? {};
  const job = { serviceId: 1n, jobIndex: 0, terms };
  const other = { serviceId: 1n, jobIndex: 1 };
  const rule = new IdentifierTerms([job, other]);

  it("Is declared as the official library declares it", () => {
    for (const [of, required] of [
      [job, true],
      [other, false],
      [{ ...JOB, jobIndex: 9 }, false],
    ] as const) {
      const declared = rule.declaration(of)["payment-identifier"];
      expect(declared).toEqual(declarePaymentIdentifierExtension(required));
      expect(validatePaymentIdentifier(declared)).toEqual({ valid: true });
    }
  });

  it("Is shown to buyers before they pay", () => {
    expect([job, other].map((one) => rule.requires(one)?.name)).toEqual(["payment-identifier", undefined]);
  });

  it("Refuses payments without an identifier, and says which version has none", () => {
    const [check] = rule.checks;
    expect(["1/0", "1/1"].map((key) => check?.jobs?.has(key))).toEqual([true, false]);
    expect(codeOf(() => requireIdentifier({ version: VERSION_2, purchaseName: ID }))).toBeUndefined();
    expect(codeOf(() => requireIdentifier({ version: VERSION_2 }))).toBe("missing_payment_identifier");
    expect(() => requireIdentifier({ version: OTHER_VERSION })).toThrow(
      "x402 version 1 has no field for it, so pay with version 2",
    );
  });
});

it("docs/errors.md prints the check of identifiers at its place, with its refusals", () => {
  for (const check of new IdentifierTerms([]).checks) expectDocumented(check);
});
