import { buildSync } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { openPage, startBrowser } from "../helpers/browser.ts";
import { freePort } from "../helpers/free-port.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { type PaidParts, startPaidParts } from "./paid-parts.ts";

/** A shop's own code: the official client, with a key in the page. */
const SHOP = `
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { privateKeyToAccount } from "viem/accounts";
globalThis.payingFetch = (key, network) => wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network, client: new ExactEvmScheme(privateKeyToAccount(key)) }],
  spendControls: false,
});
`;

/** Global that the bundle defines in the page. */
interface Shop {
  payingFetch(key: string, network: string): typeof fetch;
}

/** The 202 of a purchase. */
interface Bought {
  readonly call_id: number;
  readonly access_token: string;
  readonly links: { readonly result: string; readonly events: string };
}

let parts: PaidParts;
/** Sells, takes webhooks and serves its operator on one socket. */
let gateway: PaidGateway;
let shop: HttpListener;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  const address = `127.0.0.1:${await freePort()}`;
  [parts, browser, shop] = await Promise.all([startPaidParts(), startBrowser(), serveShop()]);
  gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle(call) {
      const body = Buffer.from(call.body).toString();
      if (body === "too hard") throw new Error("too hard for me");
      return { body: Buffer.from(`did ${body}`), contentType: "text/plain" };
    },
    edit: (config) =>
      `${config
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace('[operator]\nbind_address = "127.0.0.1:0"', `[operator]\nbind_address = "${address}"`)
        .replace("[runner]\n", "[runner]\nmax_attempts = 1\n")}
[webhooks]
bind_address = "${address}"
[[webhooks.endpoints]]
path = "/hooks/alerts"
job_id = 30
`,
  });
  ({ page } = await openPage(browser, shop.url));
});
afterAll(async () => {
  await browser?.close();
  await shop?.stop();
  await gateway?.stop();
  await parts?.stop();
});

describe("A page of another origin, in Chromium", () => {
  it("Buys with the official client, and reads receipt, events and result", async () => {
    const expectChanges = await watchLedger(parts, gateway);
    const bought = await buy("from a page");
    expect(bought).toMatchObject({ status: 202, body: { status: "accepted" } });
    const { call_id, access_token, links } = bought.body;
    expect(bought.location).toBe(`/x402/calls/${call_id}`);
    expect(JSON.parse(atob(bought.settlement ?? ""))).toMatchObject({ success: true });

    const read = (path: string) => get(path, access_token);
    expect((await read(links.events)).text).toMatch(/event: succeeded\n.*\n\n$/);
    expect(await read(links.result)).toMatchObject({ status: 200, text: "did from a page" });
    expect(JSON.parse((await read(bought.location ?? "")).text)).toMatchObject({ state: "succeeded" });
    await expectChanges(ONE_PAID_JOB);
  });

  it("Reads why its job failed, and every refusal", async () => {
    const { call_id, access_token, links } = (await buy("too hard")).body;
    await get(links.events, access_token);
    const failed = await get(links.result, access_token);
    expect([failed.status, JSON.parse(failed.text)]).toMatchObject([
      410,
      { code: "call_failed", reason: expect.stringContaining("too hard for me") },
    ]);
    expect(await get(`/x402/calls/${call_id}`)).toMatchObject({ status: 401, challenge: "Bearer" });
    for (const path of ["/x402/jobs/1/9/price", "/x402/nothing"])
      expect(await get(path)).toMatchObject({ status: 404 });
  });

  it.each(["/hooks/alerts", "/webhooks/health", "/healthz", "/metrics", "/"])(
    "Cannot read %s of the listeners that share the socket",
    async (path) => {
      await expect(get(path)).rejects.toThrow("Failed to fetch");
    },
  );

  it("Cannot read the runner API", async () => {
    const url = `http://${gateway.jobgate.runnerAddress}/`;
    await expect(page.evaluate((url) => fetch(url).then(String), url)).rejects.toThrow("Failed to fetch");
  });
});

/** Buys job 0 in the page. */
function buy(body: string) {
  const { privateKey } = accounts.payer;
  const network = `eip155:${parts.anvil.chainId}`;
  return page.evaluate(
    async ({ url, privateKey, network, body }) => {
      const pay = (globalThis as unknown as Shop).payingFetch(privateKey, network);
      const answer = await pay(url, { method: "POST", body });
      return {
        status: answer.status,
        location: answer.headers.get("location"),
        settlement: answer.headers.get("payment-response"),
        body: (await answer.json()) as Bought,
      };
    },
    { url: gateway.urlOf(), privateKey, network, body },
  );
}

/** Reads an answer of the socket in the page, to its end. */
function get(path: string, token?: string) {
  return page.evaluate(
    async ({ url, token }) => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const answer = await fetch(url, { headers });
      const challenge = answer.headers.get("www-authenticate");
      return { status: answer.status, challenge, text: await answer.text() };
    },
    { url: `${gateway.jobgate.x402Url}${path}`, token },
  );
}

function serveShop(): Promise<HttpListener> {
  const stdin = { contents: SHOP, resolveDir: import.meta.dirname, loader: "js" } as const;
  const [script] = buildSync({ bundle: true, stdin, write: false, format: "iife" }).outputFiles;
  return listenHttp({
    handler: ({ url }, outgoing) => {
      const isScript = url === "/shop.js";
      outgoing.setHeader("content-type", isScript ? "text/javascript" : "text/html");
      outgoing.end(isScript ? script?.text : '<!doctype html><script src="/shop.js"></script>');
    },
  });
}
