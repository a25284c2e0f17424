import { describe, expect, test } from "vitest";
import { answerWith, logIn, openOperatorPage } from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

describe("while the store fails", () => {
  const ASKS_STORE = ["GetTotals", "ListPayments", "ListDeadLetters", "GetRevenue"];

  test("The page says so the whole time and aloud once, says of nothing that there is none, and recovers", async () => {
    const page = await openOperatorPage();
    for (const method of ASKS_STORE) await answerWith(page, method, "unavailable");
    let asked = 0;
    page.on("request", (request) => {
      if (request.url().endsWith("/GetTotals")) asked++;
    });
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Failing", { exact: true }).waitFor();
    await page.locator("#problem").getByText("The store cannot be asked. What is shown may be").waitFor();
    // What changes from now on, or is said.
    await page.evaluate(`globalThis.changes = [];
for (const id of ["connection", "problem", "announcements"]) {
  new MutationObserver(() => changes.push(id)).observe(document.getElementById(id),
    { attributes: true, attributeOldValue: true, characterData: true, childList: true, subtree: true });
}`);
    const before = asked;
    await page.locator("#runners").getByText("test-runner").waitFor();
    await expect.poll(() => asked, { timeout: 15_000 }).toBeGreaterThanOrEqual(before + 3);
    expect(await page.evaluate("changes.filter((id) => id !== 'connection')")).toEqual([]);
    expect(await page.getByText("Failing", { exact: true }).isVisible()).toBe(true);
    for (const sentence of ["No payment needs a look.", "There are no dead letters."]) {
      expect(await page.getByText(sentence).isVisible()).toBe(false);
    }

    for (const method of ASKS_STORE) await page.unroute(`**/${method}`);
    await page.getByText("Live", { exact: true }).waitFor();
    expect(await page.locator("#problem").isVisible()).toBe(false);
    await page.getByText("There are no dead letters.").waitFor();
  });
});
