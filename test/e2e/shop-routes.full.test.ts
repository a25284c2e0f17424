import type { BrowserContextOptions } from "playwright-core";
import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { openPage, startBrowser } from "../helpers/browser.ts";
import { installWallet } from "../helpers/browser-wallet.ts";
import { freePort } from "../helpers/free-port.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { inDollars, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const CENT = 10_000n;
/** A page that does all it can to act as the one that shows it. */
const HTML = `<!doctype html><h1>Sunny</h1>
<script>for (const one of [globalThis, parent, top]) try { one.hacked = 1; } catch {}</script>
<img src="/weather/Paris?by-frame" onerror="top.hacked = 2">
<link rel="stylesheet" href="/weather/Paris?by-frame">
<iframe src="/weather/Paris?by-frame"></iframe>
<meta http-equiv="refresh" content="0; url=/weather/Paris?by-frame">
<form action="/weather/Paris"><input name="by-frame"><button>Send</button></form>
<a href="/weather/Paris?by-frame" target="_top">Leave</a>`;

const api = startBeforeAll(() =>
  listenHttp({
    handler: ({ url = "" }, response) => {
      if (url.startsWith("/weather/Html"))
        return void response.writeHead(200, { "content-type": "text/html" }).end(HTML);
      if (url.startsWith("/weather/Pdf"))
        return void response.writeHead(200, { "content-type": "application/pdf" }).end("%PDF-1.7");
      const isKnown = url.startsWith("/weather/Paris");
      response.writeHead(isKnown ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(isKnown ? { asked: url } : { detail: "no such city" }));
    },
  }),
);
const parts = startBeforeAll(startPaidParts);
const address = `127.0.0.1:${await freePort()}`;
const gateway = startBeforeAll(() =>
  startPaidGateway({
    ...{ parts, setUp: "rpc_url" },
    edit: (config) =>
      inDollars(config)
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace("http://127.0.0.1:8402", `http://${address}`)
        .replace(
          /\[job_pricing[\s\S]*/,
          `
[[apis]]
name = "weather"
url = "${api.url}"
[[jobs]]
route = "GET|POST /weather/{city}"
title = "Weather of a city"
api = "weather"
price = "$0.01"
[jobs.input.query]
units = { enum = ["celsius", "kelvin"] }
days = { type = "integer", maximum = 7 }`,
        ),
  }),
);
const browser = startBeforeAll(async () => {
  const started = await startBrowser();
  return { started, stop: () => started.close() };
});

/** Opens a path with a wallet, pays, and returns the page. */
async function buy(path: string, options: BrowserContextOptions = {}) {
  const { page, close, faults } = await openPage(browser.started, "about:blank", options);
  await installWallet(page, { account: accounts.payer, anvil: parts.anvil });
  await page.goto(`http://${address}${path}`);
  await page.getByRole("heading", { name: "Weather of a city" }).waitFor();
  await page.getByText(`GET ${path}`, { exact: true }).waitFor();
  await page.locator("#pay").click();
  return { page, close, faults };
}

const earned = () => parts.usdc.balanceOf(accounts.payTo.address);

it("A person who opens a route pays for that request, and reads its answer, also after a reload", async () => {
  const before = await earned();
  const { page, close } = await buy("/weather/Paris?units=kelvin");
  const answer = page.locator("#outcome-content").getByText("/weather/Paris?units=kelvin");
  await page.getByRole("heading", { name: "Result" }).waitFor();
  await answer.first().waitFor();
  expect(await earned()).toBe(before + CENT);
  await page.reload();
  await answer.first().waitFor();
  expect(await earned()).toBe(before + CENT);
  expect(
    await page.getByRole("link", { name: "openapi.json", includeHidden: true }).getAttribute("href"),
  ).toBe(`http://${address}/openapi.json`);
  await close();
});

it("A person reads an error of the API, for which nothing is charged", async () => {
  const before = await earned();
  const { page, close } = await buy("/weather/Atlantis");
  await page.getByRole("heading", { name: "The job failed with status 404" }).waitFor();
  await page.locator("#outcome-content").getByText("no such city").first().waitFor();
  expect(await earned()).toBe(before);
  await close();
});

it("A browser that posts to a route gets no page", async () => {
  const headers = { accept: "text/html" };
  const answer = await fetch(`http://${address}/weather/Paris`, { method: "POST", headers });
  expect([answer.status, answer.headers.get("content-type")]).toEqual([402, "application/json"]);
});

it("A person changes path and query in a form, whose values are checked before a page opens for them", async () => {
  const { page, close } = await openPage(browser.started, `http://${address}/weather/Oslo?lang=no`);
  expect(await page.getByLabel("City", { exact: true }).inputValue()).toBe("Oslo");
  await page.getByLabel("City", { exact: true }).fill("São Paulo");
  await page.getByLabel("Units").selectOption("kelvin");
  await page.getByLabel("Days").fill("9");
  await page.getByRole("button", { name: "Change the request" }).click();
  await page.getByText("This must be <= 7.").waitFor();
  await page.getByLabel("Days").fill("7");
  await page.getByLabel("City", { exact: true }).fill("São Paulo");
  await page.getByRole("button", { name: "Change the request" }).click();
  await page
    .getByText("GET /weather/S%C3%A3o%20Paulo?lang=no&units=kelvin&days=7", { exact: true })
    .waitFor();
  expect(await page.getByLabel("City", { exact: true }).inputValue()).toBe("São Paulo");
  expect(await page.getByLabel("Units").inputValue()).toBe('"kelvin"');
  await close();
});

it("Paying with other values in the form opens the page of that request, and signs nothing", async () => {
  const before = await earned();
  const { page, close } = await openPage(browser.started, "about:blank");
  const wallet = await installWallet(page, { account: accounts.payer, anvil: parts.anvil });
  await page.goto(`http://${address}/weather/Oslo`);
  await page.getByLabel("City", { exact: true }).fill("Paris");
  await page.locator("#pay").click();
  await page.getByText("GET /weather/Paris", { exact: true }).waitFor();
  expect(wallet.asked.filter((method) => method.startsWith("eth_sign"))).toEqual([]);
  expect(await earned()).toBe(before);
  await close();
});

it("HTML is shown in a frame that runs nothing and asks for nothing, and another type is saved", async () => {
  const { page, close } = await buy("/weather/Html");
  const answered: string[] = [];
  page.on("response", (response) => answered.push(response.url()));
  const frame = page.frameLocator("#outcome-content iframe");
  await frame.getByRole("heading", { name: "Sunny" }).waitFor();
  await frame.getByRole("button", { name: "Send" }).click();
  await frame.getByRole("link", { name: "Leave" }).click();
  await page.getByRole("button", { name: "Copy", exact: true }).waitFor();
  expect(answered.filter((url) => url.includes("by-frame"))).toEqual([]);
  expect(new URL(page.url()).pathname).toBe("/weather/Html");
  for (const one of page.frames()) expect(await one.evaluate("globalThis.hacked")).toBeUndefined();
  expect(await page.locator("#outcome-content iframe").getAttribute("sandbox")).toBe("");
  await close();
  const other = await buy("/weather/Pdf");
  const saving = other.page.waitForEvent("download");
  await other.page.getByRole("link", { name: "Save (application/pdf, 8 bytes)" }).click();
  expect((await saving).suggestedFilename()).toMatch(/^result-\d+\.pdf$/);
  await other.close();
});

it.each(["light", "dark"] as const)(
  "In %s at 360 px axe-core has nothing to say of a route's pages, and nothing sticks out",
  async (colorScheme) => {
    const phone = { colorScheme, viewport: { width: 360, height: 780 }, reducedMotion: "reduce" } as const;
    const { page, close } = await openPage(
      browser.started,
      `http://${address}/weather/Paris?units=kelvin`,
      phone,
    );
    await page.getByLabel("City", { exact: true }).waitFor();
    const audit = async (state: string) => {
      const { kept, broken } = await auditAccessibility(page);
      expect({ state, broken, overflow: await overflow(page) }).toEqual({ state, broken: [], overflow: 0 });
      expect(kept).toEqual(expect.arrayContaining(["color-contrast", "label", "landmark-one-main"]));
    };
    await page.getByText("Buy it from a program").click();
    await audit("request");
    await page.getByLabel("Days").fill("many");
    await page.getByRole("button", { name: "Change the request" }).click();
    await page.getByText("This must be integer.").waitFor();
    await audit("refused");
    await close();
    for (const path of ["/weather/Paris?units=kelvin", "/weather/Html", "/weather/Atlantis"]) {
      const bought = await buy(path, phone);
      await bought.page.getByRole("button", { name: "Copy", exact: true }).waitFor();
      const { broken } = await auditAccessibility(bought.page);
      expect({ path, broken, overflow: await overflow(bought.page) }).toEqual({
        path,
        broken: [],
        overflow: 0,
      });
      await bought.close();
    }
  },
);

it("An operator reads how the calls of a route ended, and how long API and answers took", async () => {
  const { page, close } = await openPage(browser.started, `${gateway.jobgate.operatorUrl}/#/endpoints`, {
    viewport: { width: 360, height: 780 },
  });
  const row = page.getByRole("row").filter({ hasText: "/weather/{city}" });
  await expect.poll(() => row.textContent()).toMatch(/\d+ 2xx.*\d+ 4xx.*\d+ ms \/ \d+ ms.*\d+ ms \/ \d+ ms/);
  const { broken } = await auditAccessibility(page);
  expect({ broken, overflow: await overflow(page) }).toEqual({ broken: [], overflow: 0 });
  await close();
});
