import { expect, it } from "vitest";
import { themeStyle } from "../../../src/parts/shop/theme.ts";

/** Surfaces of all pages in light and dark. */
const SURFACES = { light: 0xff_ff_ff, dark: 0x19_1c_24 };

function luminance(rgb: number): number {
  const [red = 0, green = 0, blue = 0] = [rgb >> 16, (rgb >> 8) & 255, rgb & 255].map((value) =>
    value / 255 <= 0.040_45 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrastOf(one: number, other: number): number {
  const [a, b] = [luminance(one) + 0.05, luminance(other) + 0.05];
  return Math.max(a, b) / Math.min(a, b);
}

/** Returns the colours for light and dark that a style has. */
function accents(style: string): readonly [light: number, dark: number] {
  const [, light = "", dark = ""] =
    /--accent: light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)/.exec(style) ?? [];
  return [Number.parseInt(light, 16), Number.parseInt(dark, 16)];
}

it("Every colour can be read on light and on dark pages", () => {
  for (let rgb = 0; rgb < 0x1_00_00_00; rgb += 4_093) {
    const color = `#${rgb.toString(16).padStart(6, "0")}`;
    const [light, dark] = accents(themeStyle(color));
    expect(contrastOf(light, SURFACES.light), color).toBeGreaterThan(5.5);
    expect(contrastOf(dark, SURFACES.dark), color).toBeGreaterThan(5.5);
  }
});

it("A colour that can be read is kept as it is", () => {
  expect(accents(themeStyle("#2f4fc9"))[0]).toBe(0x2f_4f_c9);
  expect(accents(themeStyle("#93a8ff"))[1]).toBe(0x93_a8_ff);
});
