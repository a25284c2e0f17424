import { randomUUID } from "node:crypto";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { openPage, startBrowser, type WatchedPage } from "../helpers/browser.ts";
import { until } from "../helpers/until.ts";
import { OPERATOR_TOKEN, type OperatorScene, startOperatorScene } from "./operator-page-scene.ts";

export const PHONE = { viewport: { width: 390, height: 844 } };

/** The running page and its parts; set before a file's tests run. */
export let scene: OperatorScene;
let browser: Browser;
let open: WatchedPage[] = [];
/** Bodies that the runner cannot do now. */
export const undoable = new Set<string>();

/** Starts one jobgate and one browser for all tests of a file. Errors of a page fail its test. */
export function startSceneBeforeAll(): void {
  beforeAll(async () => {
    [scene, browser] = await Promise.all([
      startOperatorScene({
        handle(call) {
          const body = Buffer.from(call.body).toString();
          if (undoable.has(body)) throw new Error(`cannot do ${body}`);
          return { body: Buffer.from("result") };
        },
      }),
      startBrowser(),
    ]);
  });
  afterEach(async () => {
    const watched = open;
    open = [];
    for (const { close } of watched) await close();
    // Refused logins and deliberate failures are console errors too: no others are allowed.
    const faults = watched
      .flatMap(({ faults }) => faults)
      .filter((text) => !/\b(400|401|503)\b|ERR_(FAILED|INTERNET)/.test(text));
    expect(faults).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await scene?.stop();
  });
}

/** Stops the runner for as long as `work` takes. Ends when a new runner has done every call, so that the next test finds none waiting. */
export async function withoutRunner(work: () => Promise<void>): Promise<void> {
  const { gateway } = scene;
  gateway.runner.kill();
  try {
    await work();
  } finally {
    await gateway.replaceRunner();
    const address = { url: gateway.jobgate.operatorUrl };
    const operator = createOperatorClient({ address, token: OPERATOR_TOKEN });
    await until(async () => {
      const { calls } = await operator.getTotals({});
      return calls?.ready === 0n && calls.leased === 0n;
    });
  }
}

export async function openOperatorPage(options: Parameters<typeof openPage>[2] = {}): Promise<Page> {
  return (await openWatched(scene.gateway.jobgate.operatorUrl, options)).page;
}

/** A page of any address, which is closed after its test. */
export async function openWatched(
  url: string,
  options: Parameters<typeof openPage>[2] = {},
): Promise<WatchedPage> {
  const watched = await openPage(browser, url, options);
  open.push(watched);
  return watched;
}

/** Opens a view of the page, such as `jobs?state=dead`, and logs in. */
export async function openLoggedIn(view = "", options: Parameters<typeof openPage>[2] = {}): Promise<Page> {
  const { page } = await openWatched(`${scene.gateway.jobgate.operatorUrl}/#/${view}`, options);
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("Live", { exact: true }).waitFor();
  return page;
}

/** Has a page write down what it announces from now on: a later text replaces an earlier one. @returns all of it so far */
export async function recordAnnouncements(page: Page): Promise<() => Promise<string>> {
  await page.evaluate(`globalThis.announced = [];
const region = document.getElementById("announcements");
new MutationObserver(() => announced.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });`);
  return () => page.evaluate("announced.join('\\n')");
}

export async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** Entries that link to exactly this call: #1 is not #10. */
const ofCall = (page: Page, selector: string, callId: number) =>
  page.locator(selector, { has: page.getByRole("link", { name: `#${callId}`, exact: true }) });
/** Line of a call in the flow. */
export const lineOf = (page: Page, callId: number) => ofCall(page, ".call", callId);
/** Row of a call in a list. */
export const rowOf = (page: Page, callId: number) => ofCall(page, "tbody tr", callId);

/** A number of the overview, which is a link. */
export const figure = (page: Page, name: string) =>
  page.getByRole("link", { name: new RegExp(`^${name}: [\\d,]+$`) });

/** Payments settled, as the page counts them. */
export const settled = async (page: Page) => Number(await figure(page, "Payments settled").textContent());

/** Has a method of the API answered like this: with JSON, or an error by its code. */
export function answerWith(page: Page, method: string, answer: object | "unavailable"): Promise<unknown> {
  const failure = { code: "unavailable", message: "The store cannot be asked." };
  return page.route(`**/${method}`, (route) =>
    answer === "unavailable"
      ? route.fulfill({ status: 503, json: failure })
      : route.fulfill({ status: 200, json: answer }),
  );
}

/** A word that no other test has. Without digits, because groups of dead letters have none. */
export function newWord(): string {
  return randomUUID().replace(/[0-9]/g, (digit) => "ghijklmnop"[Number(digit)] ?? "");
}

export async function deadLetter(body: string): Promise<number> {
  undoable.add(body);
  return scene.sendWebhook(body);
}
