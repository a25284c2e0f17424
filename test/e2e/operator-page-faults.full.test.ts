import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { answerWith, logIn, openLoggedIn, openOperatorPage } from "./operator-page-harness.ts";
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

/** As when somebody comes back to the tab. */
const askAgain = (page: Page) => page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");

describe("payments that need a look", () => {
  const AGE_OF_OLD_MS = 3_600_000;
  const payment = (callId: number, state: "INTENT" | "UNRESOLVED", ageMs = 1_000) => ({
    call_id: String(callId),
    state: `PAYMENT_STATE_${state}`,
    reason: "no rpc_url",
    symbol: "USDC",
    network: "eip155:1",
    asset: "0x1",
    amount: "1",
    payer: "0x1",
    nonce: "0x2",
    created_at: new Date(Date.now() - ageMs).toISOString(),
  });
  type Request = { state: string; page_size: number; page_token: string };
  const answerPayments = (page: Page, list: (request: Request) => object) =>
    page.route("**/ListPayments", (route) => route.fulfill({ json: list(route.request().postDataJSON()) }));
  const EMPTY = { payments: [], next_page_token: "" };

  /** This many payments are undecided; the first, which comes last, has been for long. */
  const undecided =
    (count: number) =>
    ({ state, page_size, page_token }: Request) => {
      if (state !== "PAYMENT_STATE_INTENT") return EMPTY;
      const newest = page_token === "" ? count : Number(page_token);
      const oldest = Math.max(1, newest - page_size + 1);
      const callIds = Array.from({ length: newest - oldest + 1 }, (_, i) => newest - i);
      return {
        payments: callIds.map((callId) => payment(callId, "INTENT", callId === 1 ? AGE_OF_OLD_MS : 1_000)),
        next_page_token: oldest === 1 ? "" : String(oldest - 1),
      };
    };

  test("One that is in both lists, as it changes between the two, is one row, and leaves with it", async () => {
    const page = await openLoggedIn();
    let lists = { INTENT: [payment(7, "INTENT", AGE_OF_OLD_MS)], UNRESOLVED: [] as object[] };
    await answerPayments(page, ({ state }) => ({
      payments: lists[state.replace("PAYMENT_STATE_", "") as "INTENT" | "UNRESOLVED"],
      next_page_token: "",
    }));
    const rows = page.locator("#payments tbody tr");
    await page.reload();
    await rows.getByText("not decided yet").waitFor();
    lists = { ...lists, UNRESOLVED: [payment(7, "UNRESOLVED", AGE_OF_OLD_MS)] };
    await askAgain(page);
    await rows.getByText("unresolved: no rpc_url").waitFor();
    expect(await rows.count()).toBe(1);
    expect(await page.locator("#payments-count").textContent()).toBe("1");
    lists = { INTENT: [], UNRESOLVED: [payment(9, "UNRESOLVED")] };
    await askAgain(page);
    await rows.getByText("#9", { exact: true }).waitFor();
    expect(await rows.count()).toBe(1);
  });

  test("An old one is listed however many newer ones there are", async () => {
    const page = await openLoggedIn();
    await answerPayments(page, undecided(1_700));
    await page.reload();
    await page.locator("#payments tbody tr").getByText("#1", { exact: true }).waitFor();
    expect(await page.locator("#payments tbody tr").count()).toBe(1);
    expect(await page.locator("#payments-count").textContent()).toBe("1");
  });

  test("With more than it looks through the page does not say that there is none", async () => {
    const page = await openLoggedIn();
    await answerPayments(page, undecided(6_000));
    await page.reload();
    await page.getByText("too many undecided payments").waitFor();
    expect(await page.locator("#payments-count").textContent()).toBe("0+");
    expect(await page.getByText("No payment needs a look.").isVisible()).toBe(false);
  });
});

describe("dead letters", () => {
  const letter = (callId: number) => ({
    call_id: String(callId),
    origin: "webhook",
    job_id: "30",
    service_id: "1",
    attempts: 1,
    reason: "no good",
    enqueued_at: new Date().toISOString(),
    dead_at: new Date().toISOString(),
  });

  test("A list that comes late does not bring back one that has been dropped meanwhile", async () => {
    let dead = [letter(5)];
    /** Lets the list go that is held back. */
    let release: (() => void) | undefined;
    let holdNext = false;
    const page = await openOperatorPage();
    await page.route("**/ListDeadLetters", async (route) => {
      const json = { dead_letters: dead, next_page_token: "" };
      if (holdNext) {
        holdNext = false;
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      }
      await route.fulfill({ json });
    });
    await page.route("**/DropDeadLetters", async (route) => {
      dead = [];
      await route.fulfill({ json: { statuses: ["DEAD_LETTER_STATUS_DONE"] } });
    });
    await logIn(page, OPERATOR_TOKEN);
    const rows = page.locator("#dead-letters tbody tr");
    await rows.waitFor();
    holdNext = true;
    await askAgain(page);
    await expect.poll(() => release, { timeout: 10_000 }).toBeDefined();
    await page.getByRole("button", { name: "Drop call 5" }).click();
    await page.getByRole("button", { name: "Drop it" }).click();
    await rows.waitFor({ state: "detached" });
    const late = page.waitForResponse("**/ListDeadLetters");
    release?.();
    await (await late).finished();
    // The page has seen the answer once a later one of its own is there.
    await page.evaluate("fetch('/page/icon.svg').then((response) => response.text())");
    expect(await rows.count()).toBe(0);
    await page.getByText("There are no dead letters.").waitFor();
  });
});
