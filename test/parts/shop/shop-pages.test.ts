import { decodePaymentRequiredHeader } from "@x402/core/http";
import { describe, expect, it } from "vitest";
import { parseDollars, type UsdPrice } from "../../../src/core/amounts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PUBLIC_URL, startAnotherGateway, startTestGateway } from "../../x402/gateway-harness.ts";
import { USDC } from "../../x402/payments.ts";

/** Accept header of a browser when a person opens an address. */
const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const MARKUP = `</script><img src=x onerror="a('$&')">`;
const PRICE = parseDollars("$0.01") as UsdPrice;
const PAY = "/x402/jobs/1/5";

const gateway = startBeforeAll(() =>
  startTestGateway({
    chainRpcUrl: "http://127.0.0.1:9",
    config: {
      acceptedTokens: [{ ...USDC, currency: "USD", markupBps: 0 }],
      jobs: [
        {
          serviceId: 1n,
          jobIndex: 5,
          title: MARKUP,
          description: MARKUP,
          tags: [MARKUP],
          price: PRICE,
        },
        {
          serviceId: 1n,
          jobIndex: 6,
          price: { from: PRICE, upTo: PRICE, rule: "by x-tier", headers: ["x-tier"], needsHeaders: true },
        },
      ],
    },
  }),
);

function ask(path: string, accept: string | undefined, method = "GET") {
  return fetch(gateway.url + path, { method, headers: accept === undefined ? {} : { accept } });
}

/** Returns the data block of a page. */
function dataOf(html: string): unknown {
  return JSON.parse(/<script type="application\/json" id="data">(.*)<\/script>/.exec(html)?.[1] ?? "");
}

it("A payment page says why it cannot buy a job for buyers who sign the request, or send a header for the price", async () => {
  const restricted = dataOf(await (await ask("/x402/jobs/1/1", BROWSER)).text());
  expect(restricted).toMatchObject({
    auth_mode: "delegated_caller_signature",
    not_by_page: expect.stringMatching(/^This job needs a permitted caller's signature/),
  });
  expect(dataOf(await (await ask("/x402/jobs/1/6", BROWSER)).text())).toMatchObject({
    not_by_page: expect.stringContaining("the header x-tier, which this page cannot send"),
  });
  expect(dataOf(await (await ask(PAY, BROWSER)).text())).not.toHaveProperty("not_by_page");
});

describe("who gets a page", () => {
  it.each([BROWSER, "text/html", "TEXT/HTML;q=0.3", "text/html, application/json;q=0.9"])(
    "Accept: %s",
    async (accept) => {
      for (const [path, method] of [
        ["/", "GET"],
        [PAY, "GET"],
        [PAY, "POST"],
      ] as const) {
        const { headers } = await ask(path, accept, method);
        expect({ path, type: headers.get("content-type") }).toEqual({
          path,
          type: "text/html; charset=utf-8",
        });
      }
    },
  );

  it.each([
    undefined,
    "*/*",
    "text/*",
    "application/json",
    "application/json, text/html;q=0.9",
    "text/html;q=0",
    "text/html;q=0, */*",
    "application/xhtml+xml",
    "text/htmlx",
  ])("Not Accept: %s", async (accept) => {
    for (const path of ["/", PAY]) {
      const { headers } = await ask(path, accept);
      expect({ path, type: headers.get("content-type") }).toEqual({ path, type: "application/json" });
    }
  });

  it("A request with a payment never gets one", async () => {
    const { headers } = await gateway.sign(5);
    const url = gateway.url + PAY;
    const response = await fetch(url, {
      method: "POST",
      headers: { ...headers, accept: BROWSER },
      body: "x",
    });
    expect(response.headers.get("content-type")).toBe("application/json");
  });
});

describe("the pages", () => {
  it("The payment page has the status and the offers of the 402, and forbids everything foreign", async () => {
    const page = await ask(PAY, BROWSER);
    expect(page.status).toBe(402);
    const plain = await ask(PAY, "*/*");
    expect(decodePaymentRequiredHeader(page.headers.get("payment-required") ?? "")).toEqual(
      decodePaymentRequiredHeader(plain.headers.get("payment-required") ?? ""),
    );
    expect(Object.fromEntries(page.headers)).toMatchObject({
      "content-security-policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src 'self' blob: data:",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin-allow-popups",
      "cache-control": "no-store",
      vary: "Accept",
    });
  });

  it("Shows the title and the logo of the seller, and loads pictures of the logo's origin", async () => {
    const logo = 'https://pictures.example/a"b.png';
    const other = await startAnotherGateway({ config: { title: "<Words>", logo } });
    for (const path of ["/", "/x402/jobs/1/0"]) {
      const page = await fetch(`${other.url}${path}`, { headers: { accept: BROWSER } });
      expect(page.headers.get("content-security-policy")).toContain(
        "img-src 'self' blob: data: https://pictures.example",
      );
      const [brand] = /<p class="brand">.*/.exec(await page.text()) ?? [];
      expect(brand).toContain('src="https://pictures.example/a&quot;b.png"');
      expect(brand).toContain("&lt;Words&gt;");
    }
  });

  it("Shows the colour and the terms of the seller", async () => {
    const termsOfService = "https://shop.example/terms";
    const config = { title: "<Words>", themeColor: "#0a7d5a", termsOfService };
    const other = await startAnotherGateway({ config });
    for (const [path, folder] of [
      ["/", "x402/page/shop/"],
      ["/x402/jobs/1/0", "../../page/shop/"],
    ] as const) {
      const html = await (await fetch(`${other.url}${path}`, { headers: { accept: BROWSER } })).text();
      expect(html).toContain(`<a href="${termsOfService}" rel="noopener">Terms of &lt;Words&gt;</a>`);
      expect(html).toContain(`<link rel="stylesheet" href="${folder}theme.css"`);
    }
    const style = await fetch(`${other.url}/x402/page/shop/theme.css`);
    expect(style.headers.get("content-type")).toBe("text/css; charset=utf-8");
    expect(await style.text()).toContain("--accent: light-dark(#0");
  });

  it("Has neither terms nor a theme when the seller names none", async () => {
    const html = await (await ask(PAY, BROWSER)).text();
    expect(html).not.toMatch(/theme\.css|Terms of|\{\{/);
    expect((await ask("/x402/page/shop/theme.css", "*/*")).status).toBe(404);
  });

  it("Markup in a job's description is data and text", async () => {
    for (const path of ["/", PAY]) {
      const html = await (await ask(path, BROWSER)).text();
      expect(html).not.toContain("<img src=x");
      const data = dataOf(html);
      const [job] = (path === "/" ? (data as { jobs: unknown[] }).jobs : [data]) as { title: string }[];
      expect(job).toMatchObject({ title: MARKUP, description: MARKUP, tags: [MARKUP] });
    }
    const html = await (await ask(PAY, BROWSER)).text();
    expect(html).toContain("<title>&lt;/script&gt;&lt;img src=x onerror=&quot;a('$&amp;')&quot;&gt;</title>");
  });

  it("The list is kept by caches for each Accept, and a browser that has it gets 304", async () => {
    const first = await ask("/", BROWSER);
    expect(first.headers.get("vary")).toBe("Accept");
    expect(first.headers.get("cache-control")).toBe("public, max-age=60");
    expect(await first.text()).toContain(`<title>Jobs for sale at ${new URL(PUBLIC_URL).hostname}</title>`);
    const etag = first.headers.get("etag") ?? "";
    const headers = { accept: BROWSER, "if-none-match": etag };
    expect((await fetch(`${gateway.url}/`, { headers })).status).toBe(304);
    expect((await ask("/", "*/*")).headers.get("vary")).toBe("Accept");
  });

  it("The files of the shop are served, and the files of other pages are not", async () => {
    const html = await (await ask(PAY, BROWSER)).text();
    const files = [...html.matchAll(/(?:src|href)="(\.\.\/[^"]+\.\w+)"/g)].map(([, file = ""]) => file);
    expect(files.length).toBeGreaterThan(4);
    for (const file of files) {
      const response = await fetch(new URL(file, gateway.url + PAY));
      expect({ file, status: response.status }).toEqual({ file, status: 200 });
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    }
    for (const path of [
      "/x402/page/operator/page.js",
      "/x402/page/shop/pay.html",
      "/x402/page/shop/",
      "/x402/page",
    ]) {
      expect({ path, status: (await ask(path, "*/*")).status }).toEqual({ path, status: 404 });
    }
  });

  it("A job without a description has a page too", async () => {
    const data = dataOf(await (await ask("/x402/jobs/1/0", BROWSER)).text());
    expect(data).toMatchObject({ job_index: 0, x402_endpoint: `${PUBLIC_URL}/x402/jobs/1/0` });
  });
});
