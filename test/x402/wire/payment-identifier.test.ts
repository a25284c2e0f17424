import type { PaymentPayload } from "@x402/core/types";
import {
  declarePaymentIdentifierExtension,
  isValidPaymentId,
  validatePaymentIdentifier,
} from "@x402/extensions/payment-identifier";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { IdentifierRule, readPaymentIdentifier } from "../../../src/x402/wire/payment-identifier.ts";
import { VERSION_2 } from "../../../src/x402/wire/version-2.ts";
import { anyCharacter } from "../../helpers/any-character.ts";
import { expectDocumented } from "../../helpers/documented-order.ts";
import { inOther, JOB, OTHER_VERSION, read, signedPayload } from "../payments.ts";

let payload: PaymentPayload;
beforeAll(async () => {
  payload = await signedPayload();
});

const ID = "order_0123456789";
const withExtension = (extension: unknown) =>
  ({ ...payload, extensions: { "payment-identifier": extension } }) as PaymentPayload;
const withId = (id: unknown) => withExtension({ ...declarePaymentIdentifierExtension(), info: { id } });

function codeOf(deed: () => unknown): unknown {
  try {
    deed();
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
  return undefined;
}

describe("A payment identifier", () => {
  it("Is read with the payment that carries it", () => {
    expect(read(withId(ID))).toEqual({ ...read(payload), paymentId: ID, payload: withId(ID) });
  });

  it("Is absent without the extension, in an echo of its declaration, and in version 1", () => {
    expect(read(payload)).not.toHaveProperty("paymentId");
    expect(readPaymentIdentifier(withExtension(declarePaymentIdentifierExtension(true)))).toBeUndefined();
    const other = { ...inOther(payload), extensions: withId(ID).extensions };
    expect(read(other, "x-other")).not.toHaveProperty("paymentId");
  });

  it("Is taken exactly if the official library takes it", () => {
    const nearlyValid = fc.string({
      unit: fc.constantFrom("a", "Z", "0", "_", "-"),
      minLength: 14,
      maxLength: 18,
    });
    const long = fc.integer({ min: 126, max: 130 }).map((length) => "x".repeat(length));
    const strange = fc.string({ unit: anyCharacter, minLength: 14, maxLength: 18 });
    const almost = fc.tuple(nearlyValid, anyCharacter).map(([id, character]) => `${id}${character}`);
    const other = fc.constantFrom(null, 17, true, [], {}, "", `${ID}\n`);
    fc.assert(
      fc.property(fc.oneof(nearlyValid, long, strange, almost, other), (id) => {
        const read = codeOf(() => readPaymentIdentifier(withId(id)));
        expect(read).toBe(isValidPaymentId(id as string) ? undefined : "invalid_payment");
      }),
    );
  });

  it.each([null, 1, "x", [], {}, { info: null }, { info: "x" }])(
    "Refuses an extension of another shape: %j",
    (extension) => {
      expect(codeOf(() => read(withExtension(extension)))).toBe("invalid_payment");
    },
  );
});

describe("The rule of a job", () => {
  const job = { serviceId: 1n, jobIndex: 0, requirePaymentIdentifier: true } as const;
  const other = { serviceId: 1n, jobIndex: 1 };
  const rule = new IdentifierRule([job, other]);

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

  it("Refuses payments without an identifier, and says which version has none", () => {
    expect(codeOf(() => rule.check({ version: VERSION_2, paymentId: ID }, job))).toBeUndefined();
    expect(codeOf(() => rule.check({ version: OTHER_VERSION }, other))).toBeUndefined();
    expect(codeOf(() => rule.check({ version: VERSION_2 }, job))).toBe("missing_payment_identifier");
    expect(() => rule.check({ version: OTHER_VERSION }, job)).toThrow(
      "x402 version 1 has no field for it, so pay with version 2",
    );
  });
});

it("docs/errors.md prints the check of identifiers at its place, with its refusals", () => {
  for (const check of new IdentifierRule([]).checks) expectDocumented(check);
});
