import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { openPage, startBrowser } from "../helpers/browser.ts";
import { installWallet } from "../helpers/browser-wallet.ts";
import { freePort } from "../helpers/free-port.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { inDollars, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const CENT = 10_000n;

const api = startBeforeAll(() =>
  listenHttp({
    handler: ({ url = "" }, response) => {
      const isKnown = url.startsWith("/weather/Paris");
      response.writeHead(isKnown ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(isKnown ? { asked: url } : { detail: "no such city" }));
    },
  }),
);
const parts = startBeforeAll(startPaidParts);
const address = `127.0.0.1:${await freePort()}`;
startBeforeAll(() =>
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
price = "$0.01"`,
        ),
  }),
);
const browser = startBeforeAll(async () => {
  const started = await startBrowser();
  return { started, stop: () => started.close() };
});

/** Opens a path with a wallet, pays, and returns the page. */
async function buy(path: string) {
  const { page, close, faults } = await openPage(browser.started, "about:blank");
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
