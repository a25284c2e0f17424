/** Contrast of text. WCAG requires 4.5; the margin is for backgrounds that are a little darker or lighter. */
const CONTRAST = 6;
/** Share of black or white that one step mixes in. */
const STEP = 0.04;
/** Surfaces and texts on buttons, as in the style of all pages. */
const LIGHT = { surface: "#ffffff", away: "#000000" };
const DARK = { surface: "#191c24", away: "#ffffff" };

type Rgb = readonly [red: number, green: number, blue: number];

/**
 * Returns the style of pages in the seller's colour. On light surfaces the colour is darkened, and on dark surfaces it
 * is lightened, until it can be read.
 * @param color `#rrggbb`
 */
export function themeStyle(color: string): string {
  const light = readable(color, LIGHT);
  const dark = readable(color, DARK);
  return `:root {
  --accent: light-dark(${light}, ${dark});
  --accent-soft: light-dark(color-mix(in srgb, ${light} 12%, ${LIGHT.surface}), color-mix(in srgb, ${dark} 16%, ${DARK.surface}));
}
`;
}

function readable(color: string, { surface, away }: typeof LIGHT): string {
  const [from, to, ground] = [rgbOf(color), rgbOf(away), rgbOf(surface)];
  for (let share = 0; share < 1; share += STEP) {
    const mixed = mix(from, to, share);
    if (contrast(mixed, ground) >= CONTRAST) return hexOf(mixed);
  }
  return away;
}

function mix(from: Rgb, to: Rgb, share: number): Rgb {
  const at = (i: 0 | 1 | 2) => Math.round(from[i] + (to[i] - from[i]) * share);
  return [at(0), at(1), at(2)];
}

/** Returns the contrast ratio of two colours, 1 to 21 (WCAG 2.2). */
function contrast(one: Rgb, other: Rgb): number {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

function luminance(color: Rgb): number {
  const [red = 0, green = 0, blue = 0] = color.map((channel) => {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function rgbOf(color: string): Rgb {
  const value = Number.parseInt(color.slice(1), 16);
  return [value >> 16, (value >> 8) & 0xff, value & 0xff];
}

function hexOf(color: Rgb): string {
  return `#${color.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}
