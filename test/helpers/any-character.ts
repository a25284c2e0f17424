import fc from "fast-check";

/** Any Unicode character, as the unit of `fc.string`. Its own `binary` unit takes half a second to build. */
export const anyCharacter = fc
  .integer({ min: 0, max: 0x10_f7ff })
  .map((scalar) => String.fromCodePoint(scalar < 0xd800 ? scalar : scalar + 0x800));
