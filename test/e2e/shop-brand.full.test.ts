import { expect, test } from "vitest";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import { payButton, shop, startShopBeforeAll, visit } from "./shop-harness.ts";

/** A colour that nobody can read on a light page, and an origin that the page may load pictures of. */
const BRAND = `title = "Words and Maps, a seller with a very long name"
theme_color = "#FFE600"
terms_of_service = "http://127.0.0.1:9/terms"
logo = "http://127.0.0.1:9/logo.png"
public_url`;

startShopBeforeAll((config) => config.replace("public_url", BRAND));

test.each([
  ["light", 1280],
  ["dark", 1280],
  ["light", 390],
  ["dark", 390],
] as const)(
  "With logo, colour and terms, axe-core has nothing to say in %s at %i px, and nothing sticks out",
  async (colorScheme, width) => {
    const viewport = { width, height: 844 };
    const { page } = await visit("about:blank", { colorScheme, viewport, reducedMotion: "reduce" });
    await page.route("**/logo.png", (route) =>
      route.fulfill({
        contentType: "image/svg+xml",
        body: '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="90"><rect width="300" height="90"/></svg>',
      }),
    );
    const audit = async (state: string) => {
      const { kept, broken } = await auditAccessibility(page);
      expect({ state, broken, overflow: await overflow(page) }).toEqual({ state, broken: [], overflow: 0 });
      expect(kept).toContain("color-contrast");
    };
    await page.goto(shop.url);
    await page.getByRole("link", { name: "Terms of Words and Maps" }).waitFor();
    await audit("list");
    await page.goto(shop.pageOf("summarise"));
    await page.getByText("Buy it from a program").click();
    await audit("job");
    expect(await page.evaluate("document.querySelector('.brand img').naturalWidth")).toBe(300);
    const color = await page.evaluate("getComputedStyle(document.querySelector('#pay')).backgroundColor");
    const [red = 0, green = 0, blue = 0] = String(color).match(/\d+/g)?.map(Number) ?? [];
    // Yellow, however dark.
    expect(Math.min(red, green), String(color)).toBeGreaterThan(2 * blue + 30);
    await page.getByLabel("Text", { exact: true }).fill("a text that is long enough");
    await payButton(page).click();
    await page.getByRole("heading", { name: "Result" }).waitFor();
    await audit("result");
  },
);
