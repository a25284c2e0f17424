import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { openPage, startBrowser, type WatchedPage } from "../helpers/browser.ts";
import { type BrowserWallet, installWallet } from "../helpers/browser-wallet.ts";
import type { JobHandler } from "../helpers/runner.ts";
import { installSolanaWallet, type SolanaWallet } from "../helpers/solana-browser-wallet.ts";
import { HOSTILE, JOBS, type ShopScene, startShop } from "./shop-scene.ts";

/** Set before a file's tests run. */
export let shop: ShopScene;
let browser: Browser;
let open: WatchedPage[] = [];

/** A picture of one pixel. */
export const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
export const SUMMARY = "A server answers with a price, the client signs a payment.";

const RESULTS: Readonly<Record<keyof typeof JOBS, readonly [contentType: string, body: string | Buffer]>> = {
  summarise: ["text/plain", SUMMARY],
  route: ["application/json", '{"order":[0,1],"km":584.2}'],
  draw: ["image/png", PIXEL],
  resize: ["application/pdf", "%PDF-1.7"],
  hostile: ["text/html", HOSTILE],
  permitted: ["text/plain", "no"],
  print: ["text/plain", "printed"],
};

/** Does each job; a body with the word "impossible" fails. */
const handle: JobHandler = ({ jobId, body }) => {
  if (Buffer.from(body).includes("impossible")) throw new Error("the model has no words for this");
  const job = (Object.keys(JOBS) as (keyof typeof JOBS)[]).find((name) => BigInt(JOBS[name]) === jobId);
  if (job === undefined) return undefined;
  const [contentType, result] = RESULTS[job];
  return { contentType, body: Buffer.from(result) };
};

/**
 * Starts one jobgate and one browser for all tests of a file. Errors of a page and content that its policy refuses fail
 * its test.
 * @param edit changes the configuration
 */
export function startShopBeforeAll(edit?: (config: string) => string): void {
  beforeAll(async () => {
    [shop, browser] = await Promise.all([startShop({ handle, edit }), startBrowser()]);
  });
  afterEach(async () => {
    const watched = open;
    open = [];
    for (const { close } of watched) await close();
    shop.gateway.facilitatorProxy.clear();
    // The page's own questions are answered 402 and 422, which browsers log; deliberate failures, and what a result's frame
    // may not do, too.
    const faults = watched
      .flatMap(({ faults }) => faults)
      .filter(
        (text) =>
          !/the server responded with a status of (402|409|422|502|503)|ERR_(FAILED|CONNECTION)|'about:srcdoc'|"img-src data:"/.test(
            text,
          ),
      );
    expect(faults).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await shop?.stop();
  });
}

/** Opens a page with a wallet, which is closed after its test. */
export async function visit(
  url: string,
  options: BrowserContextOptions & { readonly account?: TestAccount; readonly isLegacy?: boolean } = {},
): Promise<{ readonly page: Page; readonly wallet: BrowserWallet }> {
  const { account = accounts.payer, isLegacy = false, ...context } = options;
  const watched = await openPage(browser, "about:blank", context);
  open.push(watched);
  const { page } = watched;
  const wallet = await installWallet(page, { account, anvil: shop.parts.anvil, isLegacy });
  await page.goto(url);
  return { page, wallet };
}

/** Opens a page with wallets for Solana alone, which is closed after its test. */
export async function visitWithSolana(
  url: string,
  wallets: readonly Partial<SolanaWallet>[] = [{}],
): Promise<{ readonly page: Page; readonly wallet: SolanaWallet }> {
  const watched = await openPage(browser, "about:blank");
  open.push(watched);
  const { page } = watched;
  const [wallet] = await Promise.all(wallets.map((one) => installSolanaWallet(page, one)));
  await page.goto(url);
  return { page, wallet: wallet as SolanaWallet };
}

export const payButton = (page: Page) => page.locator("#pay");
export const result = (page: Page) => page.locator("#outcome-content");
export const problem = (page: Page) => page.locator("#problem");

/** Waits for the result of the job that was paid. */
export async function seeResult(page: Page, text: string): Promise<void> {
  await page.getByRole("heading", { name: "Result" }).waitFor();
  await result(page).getByText(text, { exact: false }).first().waitFor();
}
