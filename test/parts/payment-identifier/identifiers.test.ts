import type { PaymentPayload } from "@x402/core/types";
import { declarePaymentIdentifierExtension, isValidPaymentId } from "@x402/extensions/payment-identifier";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { IDENTIFIERS } from "../../../src/parts/payment-identifier/identifiers.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { Versions } from "../../../src/x402/wire/version.ts";
import { anyCharacter } from "../../helpers/any-character.ts";
import { documentedOrder } from "../../helpers/documented-order.ts";
import { inOther, OTHER_VERSION, read as readWith, signedPayload } from "../../x402/payments.ts";
import { codeOf } from "./code-of.ts";

let payload: PaymentPayload;
beforeAll(async () => {
  payload = await signedPayload();
});

const ID = "order_0123456789";
const METHODS = new Methods([], new Versions([OTHER_VERSION]), IDENTIFIERS);
const read = (payload: unknown, header?: string) => readWith(payload, header, METHODS);
const withExtension = (extension: unknown) =>
  ({ ...payload, extensions: { "payment-identifier": extension } }) as PaymentPayload;
const withId = (id: unknown) => withExtension({ ...declarePaymentIdentifierExtension(), info: { id } });

describe("A payment identifier", () => {
  it("Is read with the payment that carries it", () => {
    expect(read(withId(ID))).toEqual({ ...read(payload), purchaseName: ID, payload: withId(ID) });
  });

  it("Is absent without the extension, in an echo of its declaration, and in version 1", () => {
    expect(read(payload)).not.toHaveProperty("purchaseName");
    expect(IDENTIFIERS.read(withExtension(declarePaymentIdentifierExtension(true)))).toBeUndefined();
    const other = { ...inOther(payload), extensions: withId(ID).extensions };
    expect(read(other, "x-other")).not.toHaveProperty("purchaseName");
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
        const read = codeOf(() => IDENTIFIERS.read(withId(id)));
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

it("docs/errors.md prints the refusal of a taken identifier beside the refusals of a resend", () => {
  const resend = documentedOrder().find(({ name }) => name === "resend");
  expect(resend?.refusals).toContain(IDENTIFIERS.taken("job").code);
});
