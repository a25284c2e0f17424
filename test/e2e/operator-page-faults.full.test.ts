import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  answerWith,
  deadLetter,
  figure,
  lineOf,
  logIn,
  openLoggedIn,
  openOperatorPage,
  openWatched,
  recordAnnouncements,
  rowOf,
  scene,
  settled,
  startSceneBeforeAll,
} from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

startSceneBeforeAll();

describe("the connection", () => {
  test("Without the event stream the page polls, and says so", async () => {
    const page = await openOperatorPage();
    await page.route("**/Tail", (route) => route.abort());
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText("Polling", { exact: true }).waitFor();
    const before = await settled(page);
    await scene.pay("seen by polling");
    await expect.poll(() => settled(page)).toBe(before + 1);
    await page.unroute("**/Tail");
    await page.getByText("Live", { exact: true }).waitFor();
  });

  test("While jobgate cannot be reached the numbers are dimmed, and a page that says so recovers by itself", async () => {
    const page = await openLoggedIn();
    const opacity = () =>
      figure(page, "Waiting").evaluate((element) =>
        Number(element.ownerDocument.defaultView?.getComputedStyle(element).opacity),
      );
    expect(await opacity()).toBe(1);
    await page.context().setOffline(true);
    await page.getByText("Not reachable", { exact: true }).waitFor();
    await page.getByText("jobgate cannot be reached. What is shown may be out of date.").waitFor();
    await expect.poll(opacity).toBeLessThan(1);
    await page.context().setOffline(false);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.locator("#problem").waitFor({ state: "hidden" });
    await expect.poll(opacity).toBe(1);
  });

  test("A network's name that could not be read is read again, and the page is live after that", async () => {
    await scene.pay("names its network");
    const page = await openOperatorPage();
    await answerWith(page, "ListNetworks", "unavailable");
    await logIn(page, OPERATOR_TOKEN);
    await page.getByRole("link", { name: "Payments", exact: true }).click();
    await page.getByText("Failing", { exact: true }).waitFor();
    await page.unroute("**/ListNetworks");
    await page.getByText("Live", { exact: true }).waitFor();
    await page.locator("#problem").waitFor({ state: "hidden" });
  });

  test("While the store fails the page shows it throughout, announces it once, shows no empty lists, and recovers", async () => {
    const ASKS_STORE = ["GetTotals", "ListCalls", "ListPayments", "GetRevenue"];
    const page = await openOperatorPage();
    await page.goto(`${page.url()}#/jobs`);
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
for (const id of ["problem", "announcements"]) {
  new MutationObserver(() => changes.push(id)).observe(document.getElementById(id),
    { attributes: true, attributeOldValue: true, characterData: true, childList: true, subtree: true });
}`);
    const before = asked;
    await expect.poll(() => asked).toBeGreaterThanOrEqual(before + 3);
    expect(await page.evaluate("changes")).toEqual([]);
    expect(await page.getByText("Failing", { exact: true }).isVisible()).toBe(true);
    expect(await page.getByText("No job has come yet.").isVisible()).toBe(false);

    for (const method of ASKS_STORE) await page.unroute(`**/${method}`);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.locator("#problem").waitFor({ state: "hidden" });
    await page.getByRole("table").or(page.getByText("Nothing was bought yet.")).waitFor();
  });

  test("An event stream that is silently lost is opened again", async () => {
    const target = new URL(scene.gateway.jobgate.operatorUrl);
    /** Passes everything on, except the first event stream once `isLost`. */
    let isLost = false;
    /** Streams that were asked for with the token. */
    let streams = 0;
    const proxy = createServer((client) => {
      const server = connect(Number(target.port), target.hostname);
      let isFirst = false;
      client.on("data", (data) => {
        if (data.includes("OperatorService/Tail") && data.includes(OPERATOR_TOKEN)) isFirst = ++streams === 1;
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
    await page.clock.fastForward(30_000);
    expect(streams).toBe(1);
    await page.clock.fastForward(35_000);
    await expect.poll(() => streams).toBe(2);
    await page.getByText("Live", { exact: true }).waitFor();
    await lineOf(page, await scene.sendWebhook("over the second stream")).waitFor();
  });
});

describe("lists", () => {
  const payment = (callId: number, state: "INTENT" | "UNRESOLVED") => ({
    call_id: String(callId),
    state: `PAYMENT_STATE_${state}`,
    reason: state === "UNRESOLVED" ? "no rpc_url" : "",
    amount_text: "1 USDC",
    created_at: new Date(Date.now() - 3_600_000).toISOString(),
  });
  /** Simulates a return to the tab. */
  const askAgain = (page: Page) =>
    page.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))");

  test("A payment that is undecided and unresolved is one row, and leaves with it", async () => {
    let lists = { INTENT: [payment(7, "INTENT")], UNRESOLVED: [] as object[] };
    const page = await openOperatorPage();
    await page.route("**/ListPayments", (route) => {
      const { state } = route.request().postDataJSON() as { state: string };
      const payments = lists[state.replace("PAYMENT_STATE_", "") as keyof typeof lists];
      return route.fulfill({ json: { payments, next_page_token: "" } });
    });
    await page.goto(`${page.url()}#/payments?state=look`);
    await logIn(page, OPERATOR_TOKEN);
    const rows = page.locator("tbody tr");
    await rows.getByText("Being decided").waitFor();
    lists = { ...lists, UNRESOLVED: [payment(7, "UNRESOLVED")] };
    await askAgain(page);
    await rows.getByText("no rpc_url").waitFor();
    expect(await rows.count()).toBe(1);
    lists = { INTENT: [], UNRESOLVED: [payment(9, "UNRESOLVED")] };
    await askAgain(page);
    await rowOf(page, 9).waitFor();
    expect(await rows.count()).toBe(1);
  });

  test("Short pages are read on, and a list that is searched for long does not claim to be empty", async () => {
    const page = await openOperatorPage();
    await page.goto(`${page.url()}#/jobs?text=rare`);
    let end = 100;
    await page.route("**/ListCalls", (route) => {
      const before = Number(route.request().postDataJSON().pageToken || 1_000);
      const calls = before === end ? [{ call_id: "4", state: "CALL_STATE_DONE" }] : [];
      return route.fulfill({ json: { calls, next_page_token: before > end ? String(before - 100) : "" } });
    });
    await logIn(page, OPERATOR_TOKEN);
    const older = page.getByRole("link", { name: "None so far: search older ones →" });
    await older.waitFor();
    expect(await page.getByText("Nothing matches.").isVisible()).toBe(false);
    await older.click();
    await rowOf(page, 4).waitFor();
    end = 0;
    await page.getByRole("link", { name: "← Newest" }).click();
    await older.waitFor();
  });

  test("A filter that cannot be is explained in its list", async () => {
    const page = await openLoggedIn("payments?payer=nobody");
    await page.getByText("payer: expected an address: 0x and 40 hex digits.").waitFor();
    expect(await page.getByText("Live", { exact: true }).isVisible()).toBe(true);
  });

  test("An empty gateway shows the command that sends the first job", async () => {
    const page = await openOperatorPage();
    await answerWith(page, "ListCalls", { calls: [], next_page_token: "" });
    await answerWith(page, "ListPayments", { payments: [], next_page_token: "" });
    await page.goto(`${page.url()}#/jobs`);
    await logIn(page, OPERATOR_TOKEN);
    await page.getByText(/^jobgate pay http.*\/x402\/jobs\/1\/0 --body FILE$/).waitFor();
  });
});

describe("dead letters", () => {
  const group = (reason: string, count: number) => ({
    origin: "webhook",
    service_id: "1",
    job_id: "30",
    reason,
    count: String(count),
  });

  test("A late list does not bring back a dropped group, and the focus moves to the next one", async () => {
    let groups = [group("first", 2), group("second", 1)];
    /** Lets the list go that is held back. */
    let release: (() => void) | undefined;
    let holdNext = false;
    const page = await openOperatorPage();
    await page.route("**/ListDeadLetterGroups", async (route) => {
      const json = { groups, total_groups: String(groups.length) };
      if (holdNext) {
        holdNext = false;
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      }
      // The page may have given this question up.
      await route.fulfill({ json }).catch(() => undefined);
    });
    await page.route("**/DropDeadLetters", async (route) => {
      groups = groups.slice(1);
      await route.fulfill({ json: { count: "2" } });
    });
    await page.goto(`${page.url()}#/dead-letters`);
    await logIn(page, OPERATOR_TOKEN);
    const rows = page.locator("tbody tr");
    await rows.first().waitFor();
    holdNext = true;
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))");
    await expect.poll(() => release).toBeDefined();
    await page.getByRole("button", { name: /^Drop all.*first$/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Drop all" }).click();
    await expect.poll(() => rows.count()).toBe(1);
    release?.();
    await expect
      .poll(() => page.locator(":focus").evaluate((element) => element.closest("tr")?.textContent))
      .toContain("second");
    // The page has seen the late answer once its next one arrives.
    await page.evaluate("fetch('/page/shared/icon.svg').then((response) => response.text())");
    expect(await rows.count()).toBe(1);
  });

  test("A group that takes several requests shows how many of its dead letters are done, waits for room and can be stopped", async () => {
    const page = await openLoggedIn();
    const group = { origin: "webhook", service_id: "1", job_id: "30", reason: "took # ms", count: "2000" };
    await answerWith(page, "ListDeadLetterGroups", {
      groups: [group],
      total_groups: "1",
      total_dead_letters: "2000",
    });
    const asked: { pageToken?: string }[] = [];
    let finish: (() => void) | undefined;
    await page.route("**/RetryDeadLetters", async (route) => {
      asked.push(route.request().postDataJSON());
      if (asked.length === 1) return route.fulfill({ json: { count: "1500", next_page_token: "7" } });
      if (asked.length === 3) return route.fulfill({ json: { count: "0", next_page_token: "6" } });
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      finish = undefined;
      return route.fulfill({ json: { count: "100", next_page_token: "6" } });
    });
    await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/dead-letters`);
    await page.getByText(/^2.?000 dead letters in 1 group$/).waitFor();
    await page.getByRole("button", { name: /^Retry all/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Retry all" }).click();
    const status = page.getByRole("status").filter({ hasText: "done" });
    await expect.poll(() => status.textContent()).toMatch(/^1.?500 of 2.?000 done …$/);
    await expect.poll(() => finish).toBeDefined();
    finish?.();
    await expect.poll(() => status.textContent()).toMatch(/done; waiting until half of the queue is free …$/);
    // The queue has room again.
    await expect.poll(() => finish).toBeDefined();
    const announced = await recordAnnouncements(page);
    await page.getByRole("button", { name: "Stop" }).click();
    finish?.();
    await status.waitFor({ state: "detached" });
    await expect.poll(announced).toMatch(/^1.?700 dead letters back in the queue\.$/m);
    expect(asked.map(({ pageToken = "" }) => pageToken)).toEqual(["", "7", "6", "6"]);
    expect(asked[3]).toMatchObject({ group: { reason: "took # ms" } });
  });

  test("A dead letter that another operator has handled is not reported as done", async () => {
    const callId = await deadLetter("handled by another");
    const page = await openLoggedIn(`calls/${callId}`);
    await answerWith(page, "RetryDeadLetters", { statuses: ["DEAD_LETTER_STATUS_NOT_FOUND"] });
    await page.getByRole("button", { name: `Retry call ${callId}` }).click();
    await page.getByText("This dead letter had been dealt with already.").waitFor();
    expect(await page.locator("#announcements").textContent()).not.toContain("back in the queue");
  });
});

test("A refund is sent once the operator has given a name and a reason", async () => {
  let [state, asks] = ["OWED", true];
  const refund = () => ({
    ...{ call_id: "12", state: `REFUND_STATE_${state}`, asks },
    ...{ amount: "3264000", amount_text: "3.264 USDC", network: "eip155:84532", asset: "0xa", payer: "0xb" },
    created_at: new Date().toISOString(),
  });
  const decisions: unknown[] = [];
  const page = await openOperatorPage();
  await page.route("**/ListRefunds", (route) => route.fulfill({ json: { refunds: [refund()] } }));
  await page.route("**/ApproveRefund", (route) => {
    decisions.push(route.request().postDataJSON());
    [state, asks] = ["SENDING", false];
    return route.fulfill({ json: { refund: refund() } });
  });
  await page.goto(`${page.url()}#/refunds?state=owed`);
  await logIn(page, OPERATOR_TOKEN);
  await rowOf(page, 12).getByText("Owed, asks you").waitFor();
  await page.getByRole("button", { name: "Send the refund of call 12" }).click();
  const dialog = page.getByRole("dialog", { name: "Send 3.264 USDC back?" });
  const send = dialog.getByRole("button", { name: "Send it back" });
  await dialog.getByLabel("Your name").fill("Ada");
  // It does nothing without a reason.
  await send.click();
  await dialog.getByLabel("Reason").fill("as agreed by mail");
  await send.click();
  await rowOf(page, 12).getByText("Being sent").waitFor();
  expect(decisions).toEqual([{ callId: "12", by: "Ada", note: "as agreed by mail" }]);
  expect(await rowOf(page, 12).getByRole("button").count()).toBe(0);
});

test("A callback that was given up is tried again", async () => {
  let state = "DEAD";
  const callback = () => ({
    ...{ id: "31", call_id: "12", state: `CALLBACK_STATE_${state}`, event: "dead_letter", attempts: 3 },
    ...{ url: "https://ops.example.com/hook", reason: "HTTP 410", happened_at: new Date().toISOString() },
  });
  const retried: unknown[] = [];
  const page = await openOperatorPage();
  await page.route("**/ListCallbacks", (route) => route.fulfill({ json: { callbacks: [callback()] } }));
  await page.route("**/RetryCallback", (route) => {
    retried.push(route.request().postDataJSON());
    state = "SENT";
    return route.fulfill({ json: { callback: callback() } });
  });
  await page.goto(`${page.url()}#/callbacks?state=dead`);
  await logIn(page, OPERATOR_TOKEN);
  await rowOf(page, 12).getByText("Given up").waitFor();
  await page.getByRole("button", { name: "Retry callback 31" }).click();
  await rowOf(page, 12).getByText("Sent", { exact: true }).waitFor();
  expect(retried).toEqual([{ id: "31" }]);
  expect(await rowOf(page, 12).getByRole("button").count()).toBe(0);
});

test("A channel is claimed and paid back by a button, signed by the operator, and not where its key is missing", async () => {
  const id = `0x${"5d".repeat(32)}`;
  const channel = { id, state: "CHANNEL_STATE_OPEN", unclaimed: "10", unclaimed_text: "0.01 USDC" };
  const other = {
    ...channel,
    id: `0x${"6e".repeat(32)}`,
    key_missing: true,
    authorizer: `0x${"a".repeat(40)}`,
  };
  const asked: unknown[] = [];
  const page = await openOperatorPage();
  await answerWith(page, "ListChannels", { channels: [channel, other] });
  for (const method of ["ClaimChannels", "RefundChannel"])
    await page.route(`**/${method}`, (route) => {
      asked.push([method, route.request().postDataJSON()]);
      return route.fulfill({ json: {} });
    });
  await page.goto(`${page.url()}#/channels`);
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("no key of authorizer 0xaaaaaa…aaaa is configured").waitFor();
  expect(await page.getByRole("button", { name: other.id }).count()).toBe(0);
  for (const [name, action] of [
    [`Claim channel ${id}`, "Claim it"],
    [`Pay back channel ${id}`, "Pay it back"],
  ] as const) {
    await page.getByRole("button", { name }).click();
    await page.getByLabel("Your name").fill("ada");
    await page.getByLabel("Reason").fill("as agreed");
    await page.getByRole("button", { name: action }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  }
  await expect.poll(() => asked).toHaveLength(2);
  const signed = { id, by: "ada", note: "as agreed" };
  expect(asked).toEqual([
    ["ClaimChannels", signed],
    ["RefundChannel", signed],
  ]);
});

test("A call shows who is told about it, and a callback is tried again there", async () => {
  const callback = {
    ...{ id: "31", call_id: "12", state: "CALLBACK_STATE_PENDING", event: "dead_letter", attempts: 3 },
    ...{ url: "https://ops.example.com/hook", reason: "HTTP 503", due_at: new Date().toISOString() },
  };
  const page = await openOperatorPage();
  await answerWith(page, "GetCall", { call: { call_id: "12" }, callbacks: [callback] });
  await answerWith(page, "RetryCallback", { callback });
  await page.goto(`${page.url()}#/calls/12`);
  await logIn(page, OPERATOR_TOKEN);
  const row = page.getByRole("table", { name: "Callbacks" }).getByRole("row").nth(1);
  await row.getByText("Pending").waitFor();
  expect(await row.getByRole("cell").allTextContents()).toEqual([
    ...["dead_letter", "Pending", callback.url, "3", "–", expect.stringMatching(/\d/), "HTTP 503", "Retry"],
  ]);
  await row.getByRole("button", { name: "Retry callback 31" }).click();
  await expect
    .poll(() => page.locator("#announcements").textContent())
    .toContain("Callback 31 is tried now.");
});

test("After a token is refused, the next login shows live data as the first did", async () => {
  const page = await openLoggedIn();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.route("**/GetTotals", (route) =>
    route.fulfill({ status: 401, json: { code: "unauthenticated", message: "No." } }),
  );
  await page.getByText("jobgate does not take this token any more.").waitFor();
  await page.unroute("**/GetTotals");
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("Live", { exact: true }).waitFor();
  expect(await page.getByRole("button", { name: "Pause" }).getAttribute("aria-pressed")).toBe("false");
  await lineOf(page, await scene.sendWebhook("after the refusal")).waitFor();
});

test("A JobCall with a delivered event before its accepted event is shown as delivered", async () => {
  const page = await openOperatorPage();
  await page.getByLabel("Token").waitFor();
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
  await answerWith(page, "GetTotals", { calls: {}, payments: {}, paid_calls: {}, balanced: true });
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
