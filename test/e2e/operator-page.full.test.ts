import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  answerWith,
  deadLetter,
  figure,
  lineOf,
  logIn,
  newWord,
  openLoggedIn,
  openOperatorPage,
  openWatched,
  PHONE,
  recordAnnouncements,
  rowOf,
  scene,
  settled,
  startSceneBeforeAll,
  undoable,
  withoutRunner,
} from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

startSceneBeforeAll();

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

    // It is kept in this tab only.
    const { origins, cookies } = await page.context().storageState();
    expect(JSON.stringify({ origins, cookies })).not.toContain(OPERATOR_TOKEN);
    expect(page.url()).not.toContain(OPERATOR_TOKEN);
    const other = await page.context().newPage();
    await other.goto(scene.gateway.jobgate.operatorUrl);
    await other.getByLabel("Token").waitFor();

    await page.getByRole("button", { name: "Log out" }).click();
    await input.waitFor();
    await page.reload();
    await input.waitFor();
  });
});

test("Behind a proxy that serves it under a path, the page shows what happens", async () => {
  const { operatorUrl } = scene.gateway.jobgate;
  const proxy = createServer((asked, answer) => {
    const path = /^\/ops(\/.*)$/.exec(asked.url ?? "")?.[1];
    if (path === undefined) answer.writeHead(404).end();
    else {
      const { method, headers } = asked;
      const further = request(operatorUrl + path, { method, headers }, (given) => {
        answer.writeHead(given.statusCode ?? 502, given.headers);
        given.pipe(answer);
      });
      further.on("error", () => answer.destroy());
      asked.pipe(further);
    }
  }).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const { port } = proxy.address() as AddressInfo;
  const { page } = await openWatched(`http://127.0.0.1:${port}/ops/`);
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByRole("heading", { name: "What flows now" }).waitFor();
});

describe.each([
  ["desktop", {}],
  ["phone", PHONE],
] as const)("from a number to the job behind it in one click, on a %s", (_, look) => {
  test.each(["Dead letters", "Payments settled", "Paid jobs done"])("%s", async (name) => {
    const isDead = name === "Dead letters";
    const body = `behind ${name} ${newWord()}`;
    const callId = isDead ? await deadLetter(body) : await scene.pay(body);
    const page = await openLoggedIn("", look);
    await expect.poll(() => figure(page, name).textContent()).toMatch(/^[1-9]/);
    await figure(page, name).click();
    if (isDead) {
      // A group with one reason; its number opens its dead letters.
      await page.getByRole("row").getByText(body).waitFor();
      const group = page.getByRole("row").filter({ hasText: body });
      expect(await group.getByRole("link", { name: "1", exact: true }).count()).toBe(1);
      await group.getByRole("link", { name: "1", exact: true }).click();
    }
    await rowOf(page, callId).waitFor();
    await rowOf(page, callId)
      .getByRole("link", { name: `#${callId}` })
      .click();
    await page.getByRole("heading", { name: `Call ${callId}` }).waitFor();
    const steps = page.locator(".call.step");
    await steps.getByText(isDead ? "dead letter" : "done", { exact: true }).waitFor();
    expect((await steps.allTextContents()).join("\n")).toMatch(
      isDead
        ? /^accepted.*delivered.*test-runner.*dead letter.*cannot do/s
        : /^payment begun.*3\.264 USDC.*accepted.*delivered.*test-runner.*done/s,
    );
    undoable.delete(body);
  });
});

describe.each([
  ["desktop", {}],
  ["phone", PHONE],
] as const)("the search, on a %s", (_, look) => {
  test("A transaction, a payer and a call are found from any view, and each result opens its view", async () => {
    const body = `found ${newWord()}`;
    const callId = await scene.pay(body);
    const page = await openLoggedIn("settings", look);
    const field = page.getByRole("searchbox", { name: "Search" });
    const search = async (text: string) => {
      await field.fill(text);
      await field.press("Enter");
      await page.getByRole("heading", { name: "Search", level: 1 }).waitFor();
    };
    await search(String(callId));
    await page
      .getByRole("region", { name: "Calls" })
      .getByRole("link", { name: `#${callId}`, exact: true })
      .click();
    await page.getByRole("heading", { name: `Call ${callId}` }).waitFor();
    const facts = page.getByRole("region", { name: "Payment" }).locator("dl div");
    const fact = async (name: string) =>
      (await facts.filter({ hasText: name }).locator("dd").textContent()) ?? "";
    const [transaction, payer] = [await fact("Transaction"), await fact("Payer")];

    // The index is filled within seconds.
    await expect
      .poll(async () => {
        await search("zzz");
        await search(transaction.slice(0, 20));
        return page.getByRole("link", { name: transaction }).count();
      })
      .toBe(1);
    await page.getByRole("link", { name: transaction }).click();
    await page.getByRole("heading", { name: `Call ${callId}` }).waitFor();
    await search(payer.slice(0, 10).toUpperCase().replace("0X", "0x"));
    await page.getByRole("region", { name: "Payers" }).getByRole("link").first().click();
    await rowOf(page, callId).waitFor();
  });

  test("A text that is too short is answered with what is expected", async () => {
    const page = await openLoggedIn("search?text=ab", look);
    await page.getByText("expected at least 3 characters, or the number of a call").waitFor();
    await page.goto(page.url().replace("text=ab", "text=no+such+text"));
    await page.getByText("Nothing begins with").waitFor();
  });
});

test("The body and the result of a call are shown as text once they are asked for", async () => {
  const body = `<img src=x onerror=alert(1)> ${newWord()}`;
  const dead = await deadLetter(body);
  const page = await openLoggedIn(`calls/${dead}`);
  const content = page.getByRole("region", { name: "Body and result" });
  await content.getByText("jobgate logs each look.").waitFor();
  expect(await content.getByRole("region", { name: "Body of the request" }).count()).toBe(0);
  await content.getByRole("button", { name: "Show", exact: true }).click();
  await content.getByRole("region", { name: "Body of the request" }).getByText(body).waitFor();
  await content.getByText("Result: not kept").waitFor();
  expect(await content.locator("img").count()).toBe(0);

  const paid = await scene.pay(`result of ${newWord()}`);
  await page.goto(page.url().replace(/calls\/\d+/, `calls/${paid}`));
  await page.getByRole("heading", { name: `Call ${paid}` }).waitFor();
  await page.locator(".call.step").getByText("done", { exact: true }).waitFor();
  await content.getByRole("button", { name: "Show", exact: true }).click();
  await content.getByText("Body of the request: not kept").waitFor();
  await content.getByRole("region", { name: "Result" }).waitFor();
  undoable.delete(body);
});

test("A job that waits without a runner is named on top, and no runner of jobgate is offered", async () => {
  await withoutRunner(async () => {
    const page = await openLoggedIn();
    const runners = page.getByRole("region", { name: "Runners" });
    await runners.getByText("No runner is connected: start your runner").waitFor();
    expect(await runners.locator("code").allTextContents()).toEqual(["jobgate tail"]);
    const callId = await scene.sendWebhook("waits for a runner");
    await page
      .getByRole("link", { name: /^1 job of .+ waits, and no runner that is connected here takes it$/ })
      .click();
    await rowOf(page, callId).getByText("Waiting").waitFor();
  });
});

test("Waiting and oldest open the job that waits, and filters are in the address", async () => {
  await withoutRunner(async () => {
    const page = await openLoggedIn();
    await page.getByText("No runner is connected").waitFor();
    const callId = await scene.sendWebhook("waits for a runner");
    await page.getByRole("link", { name: /^oldest since/ }).click();
    await rowOf(page, callId).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await figure(page, "Waiting").click();
    await rowOf(page, callId).getByText("Waiting").waitFor();

    await page.getByLabel("Time").selectOption("Last 24 hours");
    await page.getByRole("link", { name: "Clear filters" }).waitFor();
    expect(page.url()).toMatch(/#\/jobs\?state=ready&since=24h$/);
    await page.reload();
    await rowOf(page, callId).waitFor();
    expect(await page.getByLabel("Time").inputValue()).toBe("24h");
    const text = page.getByLabel("Text in metadata");
    await text.fill("no such text");
    await page.keyboard.press("Enter");
    await page.getByText("Nothing matches.").waitFor();
    await page.goBack();
    await rowOf(page, callId).waitFor();
    await expect.poll(() => text.inputValue()).toBe("");
  });
});

describe("live data", () => {
  test("A payment arrives without reloading: its line, the totals, the revenue and an announcement", async () => {
    const page = await openLoggedIn();
    await page.evaluate(() => Object.assign(globalThis, { notReloaded: true }));
    const announced = await recordAnnouncements(page);
    const before = await settled(page);
    const callId = await scene.pay("seen on the page");
    const line = lineOf(page, callId);
    await line.getByText("done").waitFor();
    const text = await line.textContent();
    expect(text).toContain("3.264 USDC");
    expect(text).toContain("paid job 1/0");
    await expect.poll(() => settled(page)).toBe(before + 1);
    await page
      .getByRole("link", { name: / USDC$/ })
      .first()
      .waitFor();
    await expect.poll(announced).toContain(`call ${callId}`);
    await page.getByText("journal balanced").waitFor();
    expect(await page.evaluate(() => "notReloaded" in globalThis)).toBe(true);
    // Another tab shows it too: what came before it was opened is there.
    await lineOf(await openLoggedIn(), callId)
      .getByText("done")
      .waitFor();
  });

  test("An open list shows a new job, and its state, without reloading", async () => {
    const page = await openLoggedIn("jobs");
    const callId = await scene.sendWebhook("comes while the list is open");
    await rowOf(page, callId).getByText("Done").waitFor();
  });

  test("The page shows the runner, the endpoints, the listeners, the rate and the configuration, and no secret", async () => {
    const page = await openLoggedIn();
    await page.getByText("test-runner").first().waitFor();
    await page.getByRole("link", { name: "Endpoints" }).click();
    const row = page.getByRole("row").filter({ hasText: "/x402/jobs/1/0" });
    await expect.poll(() => row.textContent()).toMatch(/3\.264 USDC.*\d+(\.\d)? %/);
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByText(scene.gateway.jobgate.runnerAddress).waitFor();
    await page.getByRole("cell", { name: "3200.00" }).waitFor();
    await page.getByRole("definition").getByText("3200.00").waitFor();
    await page.getByText("/hooks/alerts").waitFor();
    expect(await page.content()).not.toContain(OPERATOR_TOKEN);
  });
});

test("A refused payment is in the list of refused payments, with the request ID of its answer", async () => {
  const refused = await fetch(scene.gateway.urlOf(), {
    method: "POST",
    headers: { "payment-signature": "no payment" },
  });
  expect(refused.status).toBe(400);
  const page = await openLoggedIn("payments?state=refused");
  const row = page.locator("tbody tr", { hasText: refused.headers.get("x-request-id") ?? "none" });
  await row.waitFor();
  expect(await row.textContent()).toContain("invalid_payment");
  expect(await row.textContent()).toContain("expected base64");
  // The counts may be older than the payment.
  await page.reload();
  const group = page
    .getByRole("region", { name: /^\d+ refused payments? in the last week, by reason$/ })
    .getByRole("row");
  await group.filter({ hasText: "invalid_payment" }).getByRole("link").first().click();
  await row.waitFor();
  expect(page.url()).toMatch(/state=refused.*code=invalid_payment/);
});

test("Networks have names, and transactions and accounts are links to the explorer, which learns nothing", async () => {
  const callId = await scene.pay("on a chain with an explorer");
  const page = await openLoggedIn("payments?state=settled");
  const row = rowOf(page, callId);
  await row.getByText("Base Sepolia", { exact: true }).waitFor();
  const links = row.getByTitle("At the explorer of Base Sepolia, in a new tab");
  await expect.poll(() => links.count()).toBe(2);
  for (const [link, path] of [
    [links.first(), "address"],
    [links.last(), "tx"],
  ] as const) {
    expect(await link.getAttribute("href")).toMatch(
      new RegExp(`^https://sepolia\\.basescan\\.org/${path}/0x[0-9a-f]+$`),
    );
    expect(await link.getAttribute("rel")).toBe("noreferrer noopener");
    expect(await link.getAttribute("target")).toBe("_blank");
  }
  await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/calls/${callId}`);
  await page
    .getByRole("region", { name: "Payment" })
    .getByTitle("At the explorer of Base Sepolia, in a new tab")
    .last()
    .waitFor();
});

test("A network without a known explorer has no links", async () => {
  const callId = await scene.pay("on a chain without an explorer");
  const { page } = await openWatched(`${scene.gateway.jobgate.operatorUrl}/#/payments?state=settled`);
  await answerWith(page, "ListNetworks", { networks: [{ network: "eip155:84532", name: "" }] });
  await logIn(page, OPERATOR_TOKEN);
  await rowOf(page, callId).getByText("eip155:84532", { exact: true }).waitFor();
  expect(await rowOf(page, callId).locator("a[target]").count()).toBe(0);
});

test("A hidden tab reads no events, and reads them again once it is visible", async () => {
  const { page } = await openWatched("about:blank");
  await page.clock.install();
  await page.addInitScript({
    content: `let unseen = false;
Object.defineProperty(document, "hidden", { get: () => unseen });
Object.defineProperty(document, "visibilityState", { get: () => (unseen ? "hidden" : "visible") });
globalThis.setUnseen = (value) => { unseen = value; document.dispatchEvent(new Event("visibilitychange", { bubbles: true })); };`,
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
  await page.getByText("Live", { exact: true }).waitFor({ state: "hidden" });
  await setUnseen(false);
  await page.getByText("Live", { exact: true }).waitFor();
  const callId = await scene.sendWebhook("seen again");
  await lineOf(page, callId).getByText("done").waitFor();
});

test("A call is resent once after a question, and its new call is shown and reaches the runner", async () => {
  const body = `resend this ${newWord()}`;
  const callId = await deadLetter(body);
  const page = await openLoggedIn(`calls/${callId}`);
  const resend = page.getByRole("button", { name: "Resend", exact: true });
  await resend.click();
  const dialog = page.getByRole("dialog", { name: `Resend call ${callId}?` });
  await dialog.getByText("The new call is not charged").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  undoable.delete(body);
  await resend.click();
  await dialog.getByLabel("Your name").fill("ada");
  await dialog.getByLabel("Reason").fill("no ink before");
  await dialog.getByRole("button", { name: "Resend it" }).dblclick();
  await page.getByRole("heading", { name: /^Call \d+$/ }).waitFor();
  await expect.poll(() => page.url()).not.toContain(`calls/${callId}`);
  await page.locator(".call.step").getByText("done", { exact: true }).waitFor();
  await page.getByRole("region", { name: "Metadata" }).getByText("X-OPERATOR-RESENT-CALL-ID").waitFor();
  await page.getByText("its body is not kept: it cannot be resent").waitFor();
  expect(await resend.count()).toBe(0);
  const delivered = await scene.gateway.waitForJobs(body, 2);
  expect(delivered.map(({ metadata }) => metadata["X-OPERATOR-RESENT-CALL-ID"])).toEqual([
    undefined,
    String(callId),
  ]);
  await page.goto(page.url().replace(/#.*/, `#/calls/${callId}`));
  await page.getByRole("button", { name: `Retry call ${callId}` }).waitFor();
});

describe("dead letters", () => {
  test("A retried dead letter reaches the runner again", async () => {
    const body = `retry this ${newWord()}`;
    const callId = await deadLetter(body);
    const page = await openLoggedIn(`calls/${callId}`);
    const retry = page.getByRole("button", { name: `Retry call ${callId}` });
    await retry.waitFor();
    undoable.delete(body);
    await retry.click();
    await retry.waitFor({ state: "detached" });
    await page.locator(".call.step").getByText("done").waitFor();
    expect((await scene.gateway.waitForJobs(body, 2)).map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test("A group is retried or dropped as a whole after confirmation, and leaves the list", async () => {
    const reason = `as a group ${newWord()}`;
    undoable.add(reason);
    const dead = async () => (await scene.gateway.journal.totals()).calls.dead;
    const deadBefore = await dead();
    for (let i = 0; i < 3; i++) await scene.sendWebhook(reason);
    const page = await openLoggedIn("dead-letters");
    const announced = await recordAnnouncements(page);
    const group = page.getByRole("row").filter({ hasText: reason });
    await group.getByText("3", { exact: true }).waitFor();
    await page.getByLabel("Text in reasons").fill(reason.toUpperCase());
    await page.keyboard.press("Enter");
    await page.getByText("3 dead letters in 1 group", { exact: true }).waitFor();
    expect(page.url()).toContain("#/dead-letters?text=AS+A+GROUP");
    await group.getByRole("button", { name: /^Retry all/ }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Retry 3 dead letters?").waitFor();
    await dialog.getByRole("button", { name: "Retry all" }).click();
    // They fail again, each with its second attempt.
    expect((await scene.gateway.waitForJobs(reason, 6)).length).toBe(6);
    await expect.poll(dead).toBe(deadBefore + 3);

    await expect.poll(() => group.getByRole("link").first().textContent()).toBe("3");
    const dropped: unknown[] = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/DropDeadLetters")) dropped.push(request.postDataJSON());
    });
    const drop = group.getByRole("button", { name: /^Drop all/ });
    await drop.click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await drop.click();
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    expect(dropped).toEqual([]);
    await drop.click();
    await dialog.getByRole("button", { name: "Drop all" }).click();
    await group.waitFor({ state: "detached" });
    await expect.poll(announced).toContain("3 dead letters dropped.");
  });

  test("Text from a sender is shown as text, markup included", async () => {
    const markup = `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`;
    const callId = await deadLetter(markup);
    const page = await openLoggedIn();
    await lineOf(page, callId).getByText(markup).waitFor();
    await lineOf(page, callId)
      .getByRole("link", { name: `#${callId}` })
      .click();
    await expect.poll(() => page.locator("pre").textContent()).toBe(markup);
    await page.getByText("X-WEBHOOK-PATH").waitFor();
    await page.getByRole("link", { name: "Jobs" }).click();
    await rowOf(page, callId).getByText(markup).waitFor();
    await page.getByRole("link", { name: "Dead letters" }).click();
    const group = page.getByRole("row").filter({ hasText: markup });
    await group.getByRole("link", { name: "1", exact: true }).click();
    await page.getByRole("heading", { name: markup }).waitFor();
    await page.getByRole("button", { name: `Drop call ${callId}` }).click();
    await page.getByRole("button", { name: "Drop it" }).click();
    await page.getByText("There are no dead letters with this job and reason any more.").waitFor();
    expect(await page.title()).toBe("Dead letters · jobgate");
    expect(await page.locator("img[src=x]").count()).toBe(0);
  });
});

test("A payment that has been undecided for too long needs a person, and a recent payment does not", async () => {
  await scene.payIntoTheDark("who knows");
  const payments = await scene.gateway.journal.payments();
  const { key, callId } = payments
    .filter(({ state }) => state === "intent")
    .reduce((first, second) => (first.callId > second.callId ? first : second));
  const page = await openLoggedIn("payments?state=look");
  await page.getByText("Nothing matches.").waitFor();

  const { page: later } = await openWatched("about:blank");
  await later.clock.install({ time: Date.now() + 6 * 60_000 });
  await later.goto(scene.gateway.jobgate.operatorUrl);
  await logIn(later, OPERATOR_TOKEN);
  await later.getByRole("link", { name: "1 payment needs a look" }).click();
  const row = rowOf(later, callId);
  await row.waitFor();
  const text = await row.textContent();
  for (const part of ["3.264 USDC", "Being decided", " min ago"]) expect(text).toContain(part);
  await row.getByRole("link", { name: `#${callId}` }).click();
  await later.getByText(key.nonce).waitFor();
});

test("Everything works by keyboard alone, and the focus is visible", async () => {
  const callId = await deadLetter("by keyboard");
  const page = await openOperatorPage();
  await page.getByLabel("Token").waitFor();
  await page.keyboard.type(OPERATOR_TOKEN);
  await page.keyboard.press("Enter");
  await lineOf(page, callId).waitFor();
  const focused = page.locator(":focus");
  /** Presses Tab until the focused element has this name. */
  async function tabTo(name: string): Promise<void> {
    const seen: string[] = [];
    for (let i = 0; i < 80; i++) {
      await page.keyboard.press("Tab");
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

  await tabTo("Pause");
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Go on" }).waitFor();
  await tabTo(`#${callId}`);
  await page.keyboard.press("Enter");
  // The view that a link opens comes next.
  await page.getByRole("heading", { name: `Call ${callId}` }).waitFor();
  await expect.poll(() => focused.getAttribute("id")).toBe("main");
  await page.getByRole("button", { name: `Drop call ${callId}` }).waitFor();
  await tabTo(`Drop call ${callId}`);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: `Drop call ${callId}?` });
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => focused.getAttribute("aria-label")).toBe(`Drop call ${callId}`);
  await page.keyboard.press("Enter");
  await tabTo("Drop it");
  await page.keyboard.press("Enter");
  await page.locator(".call.step").getByText("dropped").waitFor();
  // Its button is gone, the focus is not.
  await expect.poll(() => focused.textContent()).toBe(`Call ${callId}`);

  await page.reload();
  await page.getByText("Live", { exact: true }).waitFor();
  await page.keyboard.press("Tab");
  expect(await focused.textContent()).toBe("Skip to the content");
  await page.keyboard.press("Enter");
  await expect.poll(() => focused.getAttribute("id")).toBe("main");
});

describe.each([
  ["desktop", {}],
  ["phone", PHONE],
] as const)("pausing, on a %s", (_, look) => {
  test("An endpoint is paused with a name and a reason, every view says so, and it is resumed", async () => {
    const page = await openLoggedIn("pausing", look);
    const row = page.getByRole("row").filter({ hasText: "/hooks/alerts" });
    const sign = async () => {
      await page.getByLabel("Your name").fill("ada");
      await page.getByLabel("Reason").fill("no ink");
    };
    await row.getByRole("button", { name: "Pause and refuse endpoint Alerts" }).click();
    await sign();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Pause and refuse" }).click();
    await row.getByText("Paused", { exact: true }).waitFor();
    const send = () =>
      fetch(`${scene.gateway.jobgate.webhooksUrl}/hooks/alerts`, { method: "POST", body: newWord() });
    expect((await send()).status).toBe(503);
    const banner = page.getByText(
      "Webhook endpoint Alerts is paused by ada: no ink (new requests are refused)",
    );
    await banner.waitFor();
    await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/endpoints`);
    await banner.waitFor();
    await page
      .getByRole("row")
      .filter({ hasText: "/hooks/alerts" })
      .getByText("Paused", { exact: true })
      .waitFor();
    await banner.click();
    await row.getByRole("button", { name: "Resume endpoint Alerts" }).click();
    await sign();
    await dialog.getByRole("button", { name: "Resume" }).click();
    await row.getByText("Running", { exact: true }).waitFor();
    await expect.poll(() => banner.count()).toBe(0);
    expect((await send()).status).toBe(202);
  });
});

describe.each([
  ["desktop", {}],
  ["phone", PHONE],
] as const)("held keys, on a %s", (_, look) => {
  test("A key is paused with a name and a reason, the overview says so, its webhooks wait, and it is resumed", async () => {
    const page = await openLoggedIn("held-keys", look);
    const dialog = page.getByRole("dialog");
    const sign = async (action: string) => {
      await page.getByLabel("Your name").fill("ada");
      await page.getByLabel("Reason").fill("no ink");
      await dialog.getByRole("button", { name: action, exact: true }).click();
    };
    const customer = newWord();
    const send = () =>
      fetch(`${scene.gateway.jobgate.webhooksUrl}/hooks/alerts`, {
        method: "POST",
        body: newWord(),
        headers: { "x-customer": customer },
      });
    await page.getByLabel("Key", { exact: true }).fill(customer);
    await page.getByRole("button", { name: "Pause key", exact: true }).click();
    await sign("Pause");
    const row = page.getByRole("row").filter({ hasText: customer });
    await row.getByText("Paused", { exact: true }).waitFor();
    const { call_id } = (await (await send()).json()) as { call_id: number };
    await row.getByText("no ink").waitFor();
    await expect.poll(() => row.getByRole("cell").nth(3).textContent()).toBe("1");
    await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/calls/${call_id}`);
    await page.getByText(`Its key "${customer}" of /hooks/alerts is paused by ada (no ink)`).waitFor();
    await page.goto(`${scene.gateway.jobgate.operatorUrl}/#/`);
    await page.getByText("1 key paused").click();
    await row.getByRole("button", { name: `Resume key ${customer}` }).click();
    await sign("Resume");
    await expect.poll(() => row.count()).toBe(0);
    expect((await send()).status).toBe(202);
  });
});
