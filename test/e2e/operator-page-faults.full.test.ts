import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  answerWith,
  lineOf,
  logIn,
  openLoggedIn,
  openOperatorPage,
  openWatched,
  scene,
} from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

describe("while the store fails", () => {
  const ASKS_STORE = ["GetTotals", "ListPayments", "ListDeadLetters", "GetRevenue"];

  test("The page shows the failure throughout, announces it once, shows no empty lists, and recovers", async () => {
    const page = await openOperatorPage();
    for (const method of ASKS_STORE) await answerWith(page, method, "unavailable");
    let asked = 0;
    page.on("request", (request) => {
      if (request.url().endsWith("/GetTotals")) asked++;
    });
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Failing", { exact: true }).waitFor();
    await page.locator("#problem").getByText("The store cannot be asked. What is shown may be").waitFor();
    // Records later changes and announcements.
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

/** Simulates a return to the tab. */
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

  test("A payment that is in both lists is one row, and leaves with it", async () => {
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

  test("An old payment is listed regardless of how many are newer", async () => {
    const page = await openLoggedIn();
    await answerPayments(page, undecided(1_700));
    await page.reload();
    await page.locator("#payments tbody tr").getByText("#1", { exact: true }).waitFor();
    expect(await page.locator("#payments tbody tr").count()).toBe(1);
    expect(await page.locator("#payments-count").textContent()).toBe("1");
  });

  test("With more payments than it searches, the page does not claim that there are none", async () => {
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

  test("A late list does not bring back a dropped dead letter", async () => {
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
    // The page has seen the answer once its next one arrives.
    await page.evaluate("fetch('/page/icon.svg').then((response) => response.text())");
    expect(await rows.count()).toBe(0);
    await page.getByText("There are no dead letters.").waitFor();
  });

  test("A dead letter that another operator has handled is not reported as done", async () => {
    const page = await openOperatorPage();
    await answerWith(page, "ListDeadLetters", { dead_letters: [letter(4)], next_page_token: "" });
    await answerWith(page, "RetryDeadLetters", { statuses: ["DEAD_LETTER_STATUS_NOT_FOUND"] });
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Retry call 4" }).click();
    await page.getByText("1 dead letter had been dealt with already.").waitFor();
    expect(await page.locator("#announcements").textContent()).not.toContain("back in the queue");
  });

  test("The focus moves to the next row when its row disappears, and stays when it is elsewhere", async () => {
    const dead = new Set([1, 2, 3]);
    let release = () => {};
    const page = await openOperatorPage();
    await page.route("**/ListDeadLetters", (route) =>
      route.fulfill({ json: { dead_letters: [...dead].map(letter), next_page_token: "" } }),
    );
    await page.route("**/RetryDeadLetters", async (route) => {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      for (const callId of route.request().postDataJSON().call_ids) dead.delete(Number(callId));
      await route.fulfill({ json: { statuses: ["DEAD_LETTER_STATUS_DONE"] } });
    });
    await logIn(page, OPERATOR_TOKEN);
    const focused = page.locator(":focus");
    for (const { callId, goesOn, has } of [
      { callId: 1, goesOn: false, has: "Show call 2" },
      { callId: 2, goesOn: true, has: "Pause" },
    ]) {
      const asked = page.waitForRequest("**/RetryDeadLetters");
      await page.getByRole("button", { name: `Retry call ${callId}` }).click();
      await asked;
      if (goesOn) await page.getByRole("button", { name: "Pause" }).focus();
      const row = page.getByRole("button", { name: `Retry call ${callId}` });
      release();
      await row.waitFor({ state: "detached" });
      const name = () =>
        focused.evaluate((element) => element.getAttribute("aria-label") ?? element.textContent);
      await expect.poll(name, { timeout: 5_000 }).toBe(has);
    }
  });
});

describe("a token that is refused later", () => {
  const REFUSAL = { status: 401, json: { code: "unauthenticated", message: "No." } };

  test("The next login shows live data as the first did", async () => {
    const page = await openLoggedIn();
    const before = await scene.sendWebhook("before the refusal");
    await lineOf(page, before).waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await page.route("**/GetTotals", (route) => route.fulfill(REFUSAL));
    await page.getByText("jobgate does not take this token any more.").waitFor();
    await page.unroute("**/GetTotals");
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Nothing has come since this page was opened.").waitFor();
    expect(await page.getByRole("button", { name: "Pause" }).getAttribute("aria-pressed")).toBe("false");
    await page.getByText("Live", { exact: true }).waitFor();
    await lineOf(page, await scene.sendWebhook("after the refusal")).waitFor();
  });

  test("A token refused at the first request leaves no timer behind", async () => {
    const page = await openOperatorPage();
    await page.addInitScript({
      content: `globalThis.intervals = new Set();
const { setInterval: start, clearInterval: stop } = globalThis;
globalThis.setInterval = (...args) => { const id = start(...args); intervals.add(id); return id; };
globalThis.clearInterval = (id) => { intervals.delete(id); stop(id); };`,
    });
    await page.reload();
    await page.route("**/GetConfiguration", (route) => route.fulfill(REFUSAL), { times: 1 });
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("jobgate does not take this token any more.").waitFor();
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Live", { exact: true }).waitFor();
    expect(await page.evaluate("intervals.size")).toBe(1);
  });
});

test("An event stream that is silently lost is opened again", async () => {
  const target = new URL(scene.gateway.jobgate.operatorUrl);
  /** Passes everything on, except the first event stream once `isLost`. */
  let isLost = false;
  let streams = 0;
  const proxy = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    let isFirst = false;
    client.on("data", (data) => {
      if (data.includes("OperatorService/Tail")) isFirst = ++streams === 1;
      server.write(data);
    });
    server.on("data", (data) => (isFirst && isLost) || client.write(data));
    for (const [end, other] of [
      [client, server],
      [server, client],
    ] as const) {
      end.on("error", () => undefined).on("close", () => other.destroy());
    }
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void proxy.close());
  await once(proxy, "listening");

  const { page } = await openWatched("about:blank");
  await page.clock.install();
  await page.goto(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("Live", { exact: true }).waitFor();
  isLost = true;
  await page.clock.fastForward(55_000);
  expect(streams).toBe(1);
  await page.clock.fastForward(10_000);
  await expect.poll(() => streams, { timeout: 10_000 }).toBe(2);
  await page.getByText("Live", { exact: true }).waitFor();
  await lineOf(page, await scene.sendWebhook("over the second stream")).waitFor();
});

test("A JobCall with a delivered event before its accepted event is shown as delivered", async () => {
  const page = await openOperatorPage();
  const at = new Date().toISOString();
  const events = [
    { at, call_id: "8", delivered: { job_id: "3", attempt: 1, subscriber: "early bird" } },
    { at, call_id: "8", accepted: { origin: "x402", job_id: "3", service_id: "1" } },
  ];
  const body = Buffer.concat(events.map((event) => envelope({ event, missed: "0" })));
  await page.route("**/Tail", (route) => route.fulfill({ contentType: "application/connect+json", body }), {
    times: 1,
  });
  await logIn(page, OPERATOR_TOKEN);
  const line = lineOf(page, 8);
  await line.getByText("paid job 1/3").waitFor();
  expect(await line.textContent()).toContain("running");
  expect(await line.textContent()).toContain("early bird");
});

test("The chart of an empty queue says that the queue was empty", async () => {
  const page = await openOperatorPage();
  await page.route("**/GetTotals", async (route) => {
    const totals = await (await route.fetch()).json();
    await route.fulfill({ json: { ...totals, calls: { held: "0", ready: "0", leased: "0", dead: "0" } } });
  });
  await logIn(page, OPERATOR_TOKEN);
  await page.getByRole("img", { name: /at most 0; now 0 wait and 0 are at runners/ }).waitFor();
});

/** A message of a stream, as Connect frames it. */
function envelope(message: object): Buffer {
  const json = Buffer.from(JSON.stringify(message));
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(json.length, 1);
  return Buffer.concat([prefix, json]);
}
