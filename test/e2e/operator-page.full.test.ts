import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  bury,
  lineOf,
  logIn,
  openLoggedIn,
  openOperatorPage,
  openWatched,
  paymentRowOf,
  rowOf,
  scene,
  settled,
  undoable,
} from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

describe("the token", () => {
  test("A wrong token is refused, the right one is accepted, a reload keeps it and logging out forgets it", async () => {
    const page = await openOperatorPage();
    const input = page.getByLabel("Token");
    await input.waitFor();
    expect(await page.getByRole("heading", { name: "Waiting" }).isVisible()).toBe(false);
    await logIn(page, "wrong-horse");
    await page.getByText("That is not the token. Try again.").waitFor();
    expect(await input.getAttribute("aria-invalid")).toBe("true");
    expect(await input.evaluate((element) => element.ownerDocument.activeElement === element)).toBe(true);

    await logIn(page, OPERATOR_TOKEN);
    await page.getByRole("heading", { name: "What flows now" }).waitFor();
    await page.reload();
    await page.getByText("Live", { exact: true }).waitFor();
    expect(await input.isVisible()).toBe(false);

    await page.getByRole("button", { name: "Log out" }).click();
    await input.waitFor();
    await page.reload();
    await input.waitFor();
  });

  test("The token is stored in the tab's session storage only", async () => {
    const page = await openLoggedIn();
    const { origins, cookies } = await page.context().storageState();
    expect(JSON.stringify({ origins, cookies })).not.toContain(OPERATOR_TOKEN);
    const other = await page.context().newPage();
    await other.goto(scene.gateway.jobgate.operatorUrl);
    await other.getByLabel("Token").waitFor();
    expect(page.url()).not.toContain(OPERATOR_TOKEN);
  });
});

describe("live data", () => {
  test("A payment arrives without reloading: its line, the totals, the revenue and an announcement", async () => {
    const page = await openLoggedIn();
    await page.evaluate(() => Object.assign(globalThis, { notReloaded: true }));
    const before = await settled(page);
    const callId = await scene.pay("seen on the page");
    const line = lineOf(page, callId);
    await line.getByText("done").waitFor();
    const text = await line.textContent();
    expect(text).toContain("3.264 USDC");
    expect(text).toContain("paid job 1/0");
    expect(await line.locator(".amount").getAttribute("title")).toContain("3264000 base units");
    await expect.poll(() => settled(page), { timeout: 8_000 }).toBe(before + 1);
    await page.locator("#revenue-tokens").getByText("USDC").first().waitFor();
    await expect
      .poll(() => page.locator("#announcements").textContent(), { timeout: 8_000 })
      .toContain(`call ${callId}`);
    expect(await page.locator("#journal-value").textContent()).toBe("balanced");
    expect(await page.evaluate(() => "notReloaded" in globalThis)).toBe(true);
  });

  test("The page shows the runner, the listeners, the rate and the configuration, and no secret", async () => {
    const page = await openLoggedIn();
    await page.locator("#runners").getByText("test-runner").waitFor();
    await page.locator("#listeners").getByText(scene.gateway.jobgate.runnerAddress).waitFor();
    await page.locator("#rates").getByText("3200.00").waitFor();
    await page.getByRole("heading", { name: "Configuration" }).click();
    await page.getByText("/hooks/alerts").waitFor();
    expect(await page.content()).not.toContain(OPERATOR_TOKEN);
  });

  test.each([
    ["90s", "90 s"],
    ["7200s", "2 h"],
    ["1.500s", "1.5 s"],
  ])("A lease of %s is shown as %s: exactly", async (lease, shown) => {
    const page = await openOperatorPage();
    await page.route("**/GetConfiguration", async (route) => {
      const { configuration } = await (await route.fetch()).json();
      await route.fulfill({
        json: { configuration: { ...configuration, runner: { ...configuration.runner, lease } } },
      });
    });
    await logIn(page, OPERATOR_TOKEN);
    await page.getByRole("heading", { name: "Configuration" }).click();
    const name = page.getByText("Lease", { exact: true });
    await name.waitFor();
    expect(await name.locator("xpath=following-sibling::dd[1]").textContent()).toBe(shown);
  });

  test("Without the event stream the page polls totals, and says so", async () => {
    const page = await openOperatorPage();
    await page.route("**/Tail", (route) => route.abort());
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Polling", { exact: true }).waitFor();
    const before = await settled(page);
    await scene.pay("seen by polling");
    await expect.poll(() => settled(page), { timeout: 8_000 }).toBe(before + 1);
    await page.unroute("**/Tail");
    await page.getByText("Live", { exact: true }).waitFor({ timeout: 20_000 });
  });

  test("A page that cannot reach jobgate says so, and recovers by itself", async () => {
    const page = await openLoggedIn();
    await page.context().setOffline(true);
    await page.getByText("Not reachable", { exact: true }).waitFor();
    await page.getByText("What is shown may be out of date.").waitFor();
    await page.context().setOffline(false);
    await page.getByText("Live", { exact: true }).waitFor({ timeout: 20_000 });
    expect(await page.locator("#problem").isVisible()).toBe(false);
  });
});

test("A hidden tab reads no events, and reads them again once it is visible", async () => {
  const watched = await openWatched("about:blank");
  const { page } = watched;
  await page.clock.install();
  await page.addInitScript({
    content: `let unseen = false;
Object.defineProperty(document, "hidden", { get: () => unseen });
globalThis.setUnseen = (value) => { unseen = value; document.dispatchEvent(new Event("visibilitychange")); };`,
  });
  const setUnseen = (value: boolean) =>
    page.evaluate(
      (unseen) => (globalThis as unknown as { setUnseen(v: boolean): void }).setUnseen(unseen),
      value,
    );
  await page.goto(scene.gateway.jobgate.operatorUrl);
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("Live", { exact: true }).waitFor();
  await setUnseen(true);
  await page.clock.fastForward(21_000);
  await page.getByText("Polling", { exact: true }).waitFor();
  await setUnseen(false);
  await page.getByText("Live", { exact: true }).waitFor();
  const callId = await scene.sendWebhook("seen again");
  await lineOf(page, callId).getByText("done").waitFor();
});

describe("dead letters", () => {
  test("A retried dead letter reaches the runner again, and leaves the list", async () => {
    const page = await openLoggedIn();
    const body = `retry this ${randomUUID()}`;
    const callId = await bury(body);
    const row = rowOf(page, callId);
    await row.waitFor();
    undoable.delete(body);
    await row.getByRole("button", { name: `Retry call ${callId}` }).click();
    await row.waitFor({ state: "detached" });
    await lineOf(page, callId).getByText("done").waitFor();
    expect((await scene.gateway.waitForJobs(body, 2)).map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test("A dead letter is dropped only after confirmation", async () => {
    const page = await openLoggedIn();
    const callId = await bury("drop this");
    const row = rowOf(page, callId);
    const drop = row.getByRole("button", { name: `Drop call ${callId}` });
    const dropped: unknown[] = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/DropDeadLetters")) dropped.push(request.postDataJSON());
    });
    const dialog = page.getByRole("dialog", { name: `Drop call ${callId}?` });
    await drop.click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await drop.click();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    expect(dropped).toEqual([]);
    const before = scene.gateway.journal.totals().calls.dead;
    await drop.click();
    await dialog.getByRole("button", { name: "Drop it" }).click();
    await row.waitFor({ state: "detached" });
    expect(scene.gateway.journal.totals().calls.dead).toBe(before - 1);
  });

  test("Text from a sender is shown as text, markup included", async () => {
    const page = await openLoggedIn();
    const markup = `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`;
    const callId = await bury(markup);
    await rowOf(page, callId)
      .getByRole("button", { name: `Show call ${callId}` })
      .click();
    const dialog = page.getByRole("dialog", { name: `Call ${callId}` });
    expect(await dialog.locator("pre").textContent()).toBe(markup);
    expect(await dialog.textContent()).toContain("X-WEBHOOK-PATH");
    await dialog.getByRole("button", { name: "Close" }).click();
    expect(await rowOf(page, callId).textContent()).toContain(markup);
    expect(await page.title()).toBe("jobgate");
    await rowOf(page, callId).getByRole("button", { name: "Drop" }).click();
    await page.getByRole("button", { name: "Drop it" }).click();
    await rowOf(page, callId).waitFor({ state: "detached" });
  });
});

test("A payment that has been undecided for too long is listed, and a recent one is not", async () => {
  await scene.payIntoTheDark("who knows");
  const { key, callId } = scene.gateway.journal
    .payments()
    .filter(({ state }) => state === "intent")
    .reduce((first, second) => (first.callId > second.callId ? first : second));
  const page = await openLoggedIn();
  await expect.poll(() => page.locator("#undecided-value").textContent()).toMatch(/^[1-9]/);
  await page.getByText("No payment needs a look.").waitFor();

  const watched = await openWatched("about:blank");
  await watched.page.clock.install({ time: Date.now() + 6 * 60_000 });
  await watched.page.goto(scene.gateway.jobgate.operatorUrl);
  await logIn(watched.page, OPERATOR_TOKEN);
  const row = paymentRowOf(watched.page, callId);
  await row.waitFor();
  const text = await row.textContent();
  for (const part of ["3.264 USDC", "not decided yet", "6 min ago"]) expect(text).toContain(part);
  expect(await row.locator(`[title="${key.nonce}"]`).count()).toBe(1);
});

test("Pressing Drop again after declining asks again, and the earlier no does not count", async () => {
  const callId = await bury("asked twice");
  const page = await openLoggedIn();
  const drop = rowOf(page, callId).getByRole("button", { name: `Drop call ${callId}` });
  await drop.evaluate((button) => {
    button.click();
    button.ownerDocument.getElementById("confirm-no")?.click();
    button.click();
  });
  const dialog = page.getByRole("dialog", { name: `Drop call ${callId}?` });
  await dialog.waitFor();
  await dialog.getByRole("button", { name: "Drop it" }).click();
  await rowOf(page, callId).waitFor({ state: "detached" });
  expect(await page.locator("#dead-letters-problem").textContent()).toBe("");
});

test("Everything works by keyboard alone, and the focus is visible", async () => {
  const callId = await bury("by keyboard");
  const page = await openOperatorPage();
  await page.getByLabel("Token").waitFor();
  await page.keyboard.type(OPERATOR_TOKEN);
  await page.keyboard.press("Enter");
  await rowOf(page, callId).waitFor();
  /** Presses Tab until the focused element has this name. */
  async function tabTo(name: string): Promise<void> {
    const seen: string[] = [];
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      const focused = page.locator(":focus");
      if ((await focused.count()) === 0) continue;
      const { text, outline } = await focused.evaluate((element) => ({
        text: String(element.getAttribute("aria-label") ?? element.textContent).trim(),
        outline: element.ownerDocument.defaultView?.getComputedStyle(element).outlineStyle,
      }));
      seen.push(text);
      if (text !== name) continue;
      expect({ text, outline }).toEqual({ text, outline: "solid" });
      return;
    }
    throw new Error(`${name} never had the focus: ${seen.join(", ")}`);
  }

  await tabTo(`Drop call ${callId}`);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: `Drop call ${callId}?` }).waitFor();
  await page.keyboard.press("Escape");
  const focused = page.locator(":focus");
  await expect.poll(() => focused.getAttribute("aria-label")).toBe(`Drop call ${callId}`);
  await page.keyboard.press("Enter");
  await tabTo("Drop it");
  await page.keyboard.press("Enter");
  await rowOf(page, callId).waitFor({ state: "detached" });
  // The next row, or the heading when there is none.
  await expect
    .poll(() => focused.evaluate((element) => element.getAttribute("aria-label") ?? element.textContent))
    .toMatch(/^Show call|^Dead letters/);

  await page.reload();
  await page.getByText("Live", { exact: true }).waitFor();
  await page.keyboard.press("Tab");
  expect(await focused.textContent()).toBe("Skip to what flows");
  await page.keyboard.press("Enter");
  await expect.poll(() => focused.getAttribute("id")).toBe("main");
  await tabTo("Pause");
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Go on" }).waitFor();
});
