import { beforeAll, describe, expect, test } from "vitest";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import { bury, openLoggedIn, openOperatorPage, PHONE, scene } from "./operator-page-harness.ts";

describe("appearance", () => {
  beforeAll(async () => {
    await bury("something to look at");
    await scene.pay("something to look at, paid");
  });

  test.each([
    ["light", 1280],
    ["dark", 1280],
    ["light", 390],
    ["dark", 390],
  ] as const)(
    "In %s at %i px axe-core has nothing to say, with a dialog open or not, and nothing sticks out",
    async (colorScheme, width) => {
      const page = await openLoggedIn({
        colorScheme,
        viewport: { width, height: 844 },
        reducedMotion: "reduce",
      });
      await page.locator("#dead-letters tbody tr").first().waitFor();
      await page.getByRole("heading", { name: "Configuration" }).click();
      const { kept, broken } = await auditAccessibility(page);
      expect(broken).toEqual([]);
      expect(kept).toEqual(
        expect.arrayContaining(["color-contrast", "button-name", "landmark-one-main", "td-headers-attr"]),
      );
      expect(await overflow(page)).toBe(0);
      await page
        .getByRole("button", { name: /^Drop call/ })
        .first()
        .click();
      await page.getByRole("dialog").waitFor();
      expect((await auditAccessibility(page)).broken).toEqual([]);
    },
  );

  test("The login fits a phone and is legible in the dark theme", async () => {
    const page = await openOperatorPage({ ...PHONE, colorScheme: "dark" });
    await page.getByLabel("Token").waitFor();
    expect((await auditAccessibility(page)).broken).toEqual([]);
    expect(await overflow(page)).toBe(0);
  });

  test("At phone width a dead letter is a card: each value has its label beside it, and its buttons fit", async () => {
    const page = await openLoggedIn(PHONE);
    const row = page.locator("#dead-letters tbody tr").first();
    await row.waitFor();
    const cell = row.locator("td", { hasText: "cannot do" });
    expect(
      await cell.evaluate(
        (element) => element.ownerDocument.defaultView?.getComputedStyle(element, "::before").content,
      ),
    ).toBe('"Reason"');
    for (const button of await row.getByRole("button").all()) {
      const box = await button.boundingBox();
      expect(box?.height).toBeGreaterThanOrEqual(40);
      expect((box?.x ?? 999) + (box?.width ?? 0)).toBeLessThanOrEqual(390);
    }
  });

  test("Dark and light follow the system until the operator chooses, and the choice stays", async () => {
    const page = await openLoggedIn({ colorScheme: "dark" });
    const ground = () =>
      page
        .locator("body")
        .evaluate((element) => element.ownerDocument.defaultView?.getComputedStyle(element).backgroundColor);
    const dark = await ground();
    await page.emulateMedia({ colorScheme: "light" });
    const light = await ground();
    expect(light).not.toBe(dark);
    await page.getByRole("button", { name: "Theme: as the system" }).click();
    await page.getByRole("button", { name: "Theme: light" }).click();
    await page.reload();
    await page.getByRole("button", { name: "Theme: dark" }).waitFor();
    expect(await ground()).toBe(dark);
  });
});
