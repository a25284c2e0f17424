import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { openPage, startBrowser, type WatchedPage } from "../helpers/browser.ts";
import { OPERATOR_TOKEN, type OperatorScene, startOperatorScene } from "./operator-page-scene.ts";

/*
 * One jobgate and one browser for all tests of a file that imports this. Errors of a page fail its test.
 */

export const PHONE = { viewport: { width: 390, height: 844 } };

/** The running page and its parts; set before a file's tests run. */
export let scene: OperatorScene;
let browser: Browser;
let open: WatchedPage[] = [];
/** Bodies that the runner cannot do now. */
export const undoable = new Set<string>();

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
    .filter((text) => !/\b(401|503)\b|ERR_(FAILED|INTERNET)/.test(text));
  expect(faults).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await scene?.stop();
});

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

export async function openLoggedIn(options: Parameters<typeof openPage>[2] = {}): Promise<Page> {
  const page = await openOperatorPage(options);
  await logIn(page, OPERATOR_TOKEN);
  await page.getByText("Live", { exact: true }).waitFor();
  return page;
}

export async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** Matches exactly this call ID: #1 is not #10. */
const ofCall = (page: Page, selector: string, callId: number) =>
  page.locator(selector, { has: page.getByText(`#${callId}`, { exact: true }) });
export const lineOf = (page: Page, callId: number) => ofCall(page, "#flow li", callId);
export const rowOf = (page: Page, callId: number) => ofCall(page, "#dead-letters tbody tr", callId);
export const paymentRowOf = (page: Page, callId: number) => ofCall(page, "#payments tbody tr", callId);

/** Payments settled, as the page counts them. */
export async function settled(page: Page): Promise<number> {
  const text = () => page.locator("#paid-value").textContent();
  await expect.poll(text, { timeout: 5_000 }).toMatch(/^\d+$/);
  return Number(await text());
}

/** Has a method of the API answered like this: with JSON, or an error by its code. */
export function answerWith(page: Page, method: string, answer: object | "unavailable"): Promise<unknown> {
  const failure = { code: "unavailable", message: "The store cannot be asked." };
  return page.route(`**/${method}`, (route) =>
    answer === "unavailable"
      ? route.fulfill({ status: 503, json: failure })
      : route.fulfill({ status: 200, json: answer }),
  );
}

export async function bury(body: string): Promise<number> {
  undoable.add(body);
  return scene.sendWebhook(body);
}
