import { existsSync } from "node:fs";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { WAIT_MS } from "./until.ts";

/** Chromium without windows, which takes half the CPU: the engine is the same. */
const HEADLESS_SHELL = "/usr/bin/chromium-headless-shell";
/** Paths of Chromium on the systems that tests run on, the cheapest first. */
const CHROMIUM_PATHS = [
  HEADLESS_SHELL,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];

/** Undefined when there is no Chromium on this machine. */
export function findChromium(): string | undefined {
  return CHROMIUM_PATHS.find((path) => existsSync(path));
}

export function hasHeadlessShell(): boolean {
  return existsSync(HEADLESS_SHELL);
}

/** Starts a headless Chromium. Throws when there is none. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error(`There is no Chromium at ${CHROMIUM_PATHS.join(", ")}.`);
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({
    executablePath,
    // Chromium's sandbox does not start for root.
    args: ["--disable-dev-shm-usage", ...(isRoot ? ["--no-sandbox"] : [])],
  });
}

/** A page that records its errors. */
export interface WatchedPage {
  readonly page: Page;
  /** Console errors, refused content and uncaught exceptions so far. */
  readonly faults: readonly string[];
  close(): Promise<void>;
}

/** Opens a page in a new profile. Every step waits at most a minute. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(WAIT_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.goto(url);
  const close = async () => {
    // From here on the page's requests are no longer answered by its routes.
    page.removeAllListeners("console");
    page.removeAllListeners("pageerror");
    // A route may be at work on a request that nobody waits for.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  };
  return { page, faults, close };
}
