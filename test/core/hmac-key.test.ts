import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { HmacKey } from "../../src/core/hmac-key.ts";
import { anyCharacter } from "../helpers/any-character.ts";

const secret = fc.oneof(fc.string({ unit: anyCharacter }), fc.uint8Array({ maxLength: 200, size: "max" }));
const body = fc.oneof(
  fc.uint8Array({ maxLength: 300, size: "max" }),
  // Around the length from which a body is no longer copied.
  fc.integer({ min: 16_200, max: 16_500 }).map((length) => new Uint8Array(length).fill(length)),
);

it("A key signs as createHmac does, whatever it signed before", () => {
  fc.assert(
    fc.property(
      secret,
      fc.array(fc.tuple(body, fc.string({ unit: anyCharacter, maxLength: 40 }))),
      (bytes, signed) => {
        const key = new HmacKey(bytes);
        for (const [text, head] of signed) {
          const expected = createHmac("sha256", bytes).update(head).update(text).digest("hex");
          expect(key.sign(text, head).toString("hex")).toBe(expected);
        }
      },
    ),
  );
});
