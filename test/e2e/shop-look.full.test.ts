import { expect, test } from "vitest";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import { payButton, problem, shop, startShopBeforeAll, visit } from "./shop-harness.ts";

startShopBeforeAll();

const KEPT = ["color-contrast", "button-name", "label", "landmark-one-main", "page-has-heading-one"];

test.each([
  ["light", 1280],
  ["dark", 1280],
  ["light", 390],
  ["dark", 390],
] as const)(
  "In %s at %i px axe-core has nothing to say about any state of the pages, and nothing sticks out",
  async (colorScheme, width) => {
    const { page, wallet } = await visit(shop.url, {
      colorScheme,
      viewport: { width, height: 844 },
      reducedMotion: "reduce",
    });
    const audit = async (state: string) => {
      const { kept, broken } = await auditAccessibility(page);
      expect({ state, broken, overflow: await overflow(page) }).toEqual({ state, broken: [], overflow: 0 });
      return kept;
    };
    expect(await audit("list")).toEqual(expect.arrayContaining(["color-contrast", "landmark-one-main"]));
    await page.getByRole("searchbox").fill("nothing like this");
    await page.getByText("No job matches.").waitFor();
    await audit("no match");

    await page.goto(shop.pageOf("summarise"));
    await page.getByText("Buy it from a program").click();
    expect(await audit("job")).toEqual(expect.arrayContaining(KEPT));
    await page.getByLabel("Text", { exact: true }).fill("short");
    await payButton(page).click();
    await page.getByText("This must NOT have fewer than 10 characters.").waitFor();
    await audit("invalid input");
    await page.getByLabel("Text", { exact: true }).fill("a text that is long enough");
    wallet.refuses.set("eth_signTypedData_v4", 4001);
    await payButton(page).click();
    await problem(page).getByText("You rejected the request in the wallet.").waitFor();
    await audit("refused");
    wallet.refuses.clear();
    await payButton(page).click();
    await page.getByRole("heading", { name: "Result" }).waitFor();
    await page.getByText("Receipt and access token").click();
    await audit("result");

    await page.goto(shop.pageOf("hostile"));
    await audit("long words");
  },
);

test("A job is bought with the keyboard alone, and the focus and what is read out follow", async () => {
  const { page } = await visit(shop.url);
  await page.getByRole("link", { name: "Find the shortest round trip" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Find the shortest round trip", level: 1 }).waitFor();
  // Until the page's program runs, the button is disabled and takes no focus.
  await payButton(page).and(page.locator(":enabled")).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await payButton(page).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Result" }).waitFor();
  await page.locator("#announcements").getByText("The result is here.").waitFor();
  await page.locator("#outcome-title:focus").waitFor();
});
