import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { approvePermit2 } from "../helpers/permit2.ts";
import {
  PIXEL,
  payButton,
  problem,
  result,
  SUMMARY,
  seeResult,
  shop,
  startShopBeforeAll,
  visit,
} from "./shop-harness.ts";
import { HOSTILE } from "./shop-scene.ts";

startShopBeforeAll();

/** Units of USDC that the payee has. */
const earned = () => shop.parts.usdc.balanceOf(accounts.payTo.address);
const CENT = 10_000n;

describe("buying", () => {
  test("A person finds a job in the list, pays with a wallet, reads the result, and a reload pays nothing again", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.url);
    await page.getByRole("searchbox", { name: "Filter jobs" }).fill("language");
    expect(await page.locator("#jobs > li:visible").count()).toBe(1);
    expect(await page.locator("#count").textContent()).toBe("1 of 9 jobs");
    const tokens = page.locator("#jobs > li:visible .card-price .small");
    expect(await tokens.textContent()).toBe("USDC on Base Sepolia");
    await page.getByRole("link", { name: "Summarise a text" }).click();
    await page.getByRole("heading", { name: "Summarise a text" }).waitFor();
    await page.locator("#price").getByText("$0.01", { exact: true }).waitFor();
    await page.getByLabel("Text", { exact: true }).fill("a text that is long enough");
    await page.getByLabel("Length of the summary").selectOption("medium");
    await page.getByLabel("Max words").fill("");
    await payButton(page).click();
    await seeResult(page, SUMMARY);
    expect(await earned()).toBe(before + CENT);
    const body = JSON.stringify({ text: "a text that is long enough", length: "medium" }, null, 2);
    expect(shop.gateway.jobsWith(body)).toHaveLength(1);
    expect(wallet.signed).toHaveLength(1);

    await page.getByText("Receipt and access token").click();
    const [token] = await page
      .locator(".keep .mono")
      .allTextContents()
      .then((texts) => texts.slice(-1));
    expect(token).toMatch(/^[\w-]{43}$/);
    await page.reload();
    await seeResult(page, SUMMARY);
    expect(await earned()).toBe(before + CENT);

    await page.getByRole("button", { name: "Buy another run" }).click();
    await expect.poll(() => payButton(page).textContent()).toBe("Pay 0.01 USDC");
    await payButton(page).click();
    await seeResult(page, SUMMARY);
    expect(await earned()).toBe(before + 2n * CENT);
  });

  test("An account pays by Permit2 once it has approved it, and is told so before", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.pageOf("route"));
    await page.getByLabel(/by Permit2/).check();
    await payButton(page).click();
    await problem(page).getByText("This account has not allowed Permit2 to move its USDC").waitFor();
    expect(wallet.signed).toEqual([]);
    const { anvil, usdc } = shop.parts;
    await approvePermit2({ anvil, token: usdc.address, account: accounts.payer });
    await payButton(page).click();
    await seeResult(page, '"km": 584.2');
    expect(wallet.signed).toMatchObject([{ permitted: { token: usdc.address } }]);
    expect(await earned()).toBe(before + 5n * CENT);
  });

  test("A wallet without announcements pays", async () => {
    const { page } = await visit(shop.pageOf("route"), { isLegacy: true });
    await page.getByText("Browser wallet").waitFor();
    await payButton(page).click();
    await seeResult(page, '"km": 584.2');
  });

  test("The price follows the form, and is what is paid", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.url);
    await page.getByRole("searchbox", { name: "Filter jobs" }).fill("book");
    expect(await page.locator("#jobs > li:visible .card-price strong").textContent()).toBe("$0.05 to $1.00");
    await page.goto(shop.pageOf("permitted"));
    await page.locator("#facts").getByText("For permitted callers only.").waitFor();
    await page.goto(shop.pageOf("print"));
    await page.locator("#facts").getByText("$0.02 for each ").waitFor();
    for (const [pages, price] of [
      ["1", "0.05"],
      ["7", "0.14"],
      ["20", "0.4"],
    ] as const) {
      await page.getByLabel("Pages").fill(pages);
      await expect.poll(() => page.locator("#price").textContent()).toBe(`${price} USDC`);
      expect(await payButton(page).textContent()).toBe(`Pay ${price} USDC`);
    }
    await payButton(page).click();
    await seeResult(page, "printed");
    expect(await earned()).toBe(before + 40n * CENT);
    expect(wallet.signed).toHaveLength(1);
    expect(shop.gateway.jobsWith('{\n  "pages": 20\n}')).toHaveLength(1);
  });

  test("A job cannot be paid for before the page's script runs", async () => {
    const { page } = await visit("about:blank");
    let goOn = () => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await page.route("**/pay.js", async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(shop.pageOf("route"), { waitUntil: "commit" });
    await payButton(page).waitFor();
    expect(await payButton(page).isDisabled()).toBe(true);
    goOn();
    await payButton(page).click();
    await seeResult(page, '"km": 584.2');
  });

  test("A picture is shown, and a file is only saved", async () => {
    const { page } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("a gate");
    await payButton(page).click();
    await page.getByRole("img", { name: "The job's result" }).waitFor();
    const width = await page
      .locator("img.picture")
      .evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth);
    expect(width).toBe(1);

    await page.goto(shop.pageOf("resize"));
    await payButton(page).click();
    await page.getByText("Choose a file first.").waitFor();
    await page
      .getByLabel("File (image/png)")
      .setInputFiles({ name: "a.png", mimeType: "image/png", buffer: PIXEL });
    await payButton(page).click();
    const saving = page.waitForEvent("download");
    await page.getByRole("link", { name: "Save (application/pdf, 8 bytes)" }).click();
    expect((await saving).suggestedFilename()).toMatch(/^result-\d+\.pdf$/);
  });

  test("A job that fails says why", async () => {
    const { page } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("the impossible");
    await payButton(page).click();
    await page.getByRole("heading", { name: "The job failed" }).waitFor();
    await result(page).getByText("the model has no words for this").waitFor();
  });

  test("The pages work behind a proxy that adds a path", async () => {
    const proxy = createServer((incoming, outgoing) => {
      const path = incoming.url?.replace(/^\/shop\/ai(?=\/)/, "");
      const forwarded = request(shop.url + path, { method: incoming.method, headers: incoming.headers });
      forwarded.on("response", (answer) => {
        outgoing.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(outgoing);
      });
      incoming.pipe(forwarded);
    });
    onTestFinished(() => void proxy.close().closeAllConnections());
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const { page } = await visit(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}/shop/ai/`);
    await page.getByRole("link", { name: "Find the shortest round trip" }).click();
    await payButton(page).click();
    await seeResult(page, '"km": 584.2');
    await page.getByRole("link", { name: "All jobs" }).click();
    await page.getByRole("heading", { name: "Jobs for sale" }).waitFor();
  });
});

describe("problems before the payment", () => {
  test("An input that the schema refuses is marked where it is wrong, and nothing is signed", async () => {
    const { page, wallet } = await visit(shop.pageOf("summarise"));
    await page.getByLabel("Text", { exact: true }).fill("short");
    await page.getByLabel("Max words").fill("many");
    await payButton(page).click();
    await page.getByText("This must NOT have fewer than 10 characters.").waitFor();
    await page.getByText("This must be integer.").waitFor();
    expect(await page.getByLabel("Text", { exact: true }).getAttribute("aria-invalid")).toBe("true");

    await page.getByRole("button", { name: "Edit as JSON" }).click();
    await page.getByLabel("Body (application/json)").fill('{"text": 1');
    await payButton(page).click();
    await page.getByText("This is not JSON").waitFor();
    await page.getByLabel("Body (application/json)").fill('{"text": 1}');
    await payButton(page).click();
    await page.getByText("/text must be string.").waitFor();
    expect(wallet.asked).toEqual([]);
  });

  test("A wallet on another network is asked to change, and a wallet that does not know the network is explained", async () => {
    const { page, wallet } = await visit(shop.pageOf("route"));
    wallet.chainId = 1;
    wallet.refuses.set("wallet_switchEthereumChain", 4902);
    await payButton(page).click();
    await problem(page).getByText("Test Wallet does not know Base Sepolia.").waitFor();
    wallet.refuses.set("wallet_switchEthereumChain", 4001);
    await payButton(page).click();
    await problem(page).getByText("You rejected the request in the wallet. Nothing was paid.").waitFor();
    wallet.refuses.clear();
    await payButton(page).click();
    await seeResult(page, '"km": 584.2');
    expect(wallet.chainId).toBe(shop.parts.anvil.chainId);
  });

  test("A refusal in the wallet sends nothing, and the same button tries again", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.pageOf("route"));
    wallet.refuses.set("eth_signTypedData_v4", 4001);
    await payButton(page).click();
    await problem(page).getByText("You rejected the request in the wallet. Nothing was paid.").waitFor();
    expect(await earned()).toBe(before);
    wallet.refuses.clear();
    await payButton(page).click();
    await seeResult(page, '"km": 584.2');
    expect(await earned()).toBe(before + 5n * CENT);
  });

  test("An account with too little is told how much is missing, and signs nothing", async () => {
    const { page, wallet } = await visit(shop.pageOf("route"), { account: accounts.stranger });
    await payButton(page).click();
    await problem(page).getByText("This account has too little: 0 USDC on Base Sepolia").waitFor();
    expect(wallet.signed).toEqual([]);
    // A wallet that cannot tell leaves it to the facilitator.
    wallet.refuses.set("eth_call", -32_603);
    await payButton(page).click();
    await problem(page).getByText("Check that the account has enough of the token.").waitFor();
    await expect.poll(() => payButton(page).textContent()).toBe("Pay 0.05 USDC");
  });
});

describe("payments that are on their way", () => {
  test("A reload while the payment is settled sends the same payment, and the result comes", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("a reload");
    const settling = shop.gateway.duringSettle(async () => {
      await page.reload();
      await page.locator("#steps").getByText("Settle the payment").waitFor();
    });
    await payButton(page).click();
    await settling;
    await page.getByRole("img", { name: "The job's result" }).waitFor();
    expect(wallet.signed).toHaveLength(1);
    expect(shop.gateway.jobsWith("a reload")).toHaveLength(1);
    expect(await earned()).toBe(before + 20n * CENT);
  });

  test("A lost answer is asked for again with the same payment", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("a lost answer");
    const sent: string[] = [];
    await page.route("**/x402/jobs/**", async (route) => {
      const payment = route.request().headers()["payment-signature"];
      if (payment === undefined) return route.continue();
      sent.push(payment);
      if (sent.length > 1) return route.continue();
      await route.fetch();
      await route.abort();
    });
    await payButton(page).click();
    await page.getByRole("img", { name: "The job's result" }).waitFor();
    expect(sent).toHaveLength(2);
    expect(sent[1]).toBe(sent[0]);
    expect(wallet.signed).toHaveLength(1);
    expect(await earned()).toBe(before + 20n * CENT);
    const { extensions } = JSON.parse(Buffer.from(sent[0] ?? "", "base64").toString());
    expect(extensions["payment-identifier"].info.id).toMatch(/^pay_[0-9a-f]{32}$/);
  });

  test("A payment whose settlement is not known is sent again until it is", async () => {
    const { page, wallet } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("a lost settlement");
    shop.gateway.facilitatorProxy.add({ path: "/settle", times: 1, fault: { kind: "lose-answer" } });
    await payButton(page).click();
    await page.getByRole("img", { name: "The job's result" }).waitFor();
    expect(wallet.signed).toHaveLength(1);
    expect(shop.gateway.jobsWith("a lost settlement")).toHaveLength(1);
  });

  test("A payment that stays undecided is kept over a reload, and sent again by the buyer", async () => {
    const { page, wallet } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("undecided");
    let isUndecided = true;
    await page.route("**/x402/jobs/**", (route) =>
      isUndecided && route.request().headers()["payment-signature"] !== undefined
        ? route.fulfill({
            status: 503,
            headers: { "retry-after": "0.01" },
            json: {
              error: "Not known yet.",
              code: "settlement_unknown",
              charged: "unknown",
              retryable: true,
            },
          })
        : route.continue(),
    );
    await payButton(page).click();
    await problem(page).getByText("It is not decided yet. Your payment is kept in this tab").waitFor();
    await page.reload();
    await problem(page).getByText("It is not decided yet.").waitFor();
    isUndecided = false;
    await page.getByRole("button", { name: "Send the same payment again" }).click();
    await page.getByRole("img", { name: "The job's result" }).waitFor();
    expect(wallet.signed).toHaveLength(1);
    expect(shop.gateway.jobsWith("undecided")).toHaveLength(1);
  });

  test("A buyer who forgets a payment that did arrive, and pays again, is charged once", async () => {
    const before = await earned();
    const { page, wallet } = await visit(shop.pageOf("draw"));
    await page.getByLabel("Body (text/plain)").fill("forgotten");
    let isSilent = true;
    await page.route("**/x402/jobs/**", async (route) => {
      if (!isSilent || route.request().headers()["payment-signature"] === undefined) return route.continue();
      await route.fetch();
      await route.fulfill({ status: 502, headers: { "retry-after": "0.01" }, body: "a proxy's error" });
    });
    await payButton(page).click();
    await problem(page).getByText("It is not decided yet.").waitFor();
    isSilent = false;
    await page.getByRole("button", { name: "Forget this payment" }).click();
    await expect.poll(() => payButton(page).textContent()).toBe("Pay 0.2 USDC");
    await payButton(page).click();
    await page.getByRole("img", { name: "The job's result" }).waitFor();
    expect(wallet.signed).toHaveLength(2);
    expect(shop.gateway.jobsWith("forgotten")).toHaveLength(1);
    expect(await earned()).toBe(before + 20n * CENT);
  });
});

test("Markup in a job's description is text, and that in a result is in a frame, and runs nothing", async () => {
  const { page } = await visit(shop.url);
  await page.getByRole("heading", { name: HOSTILE }).waitFor();
  await page.getByRole("link", { name: HOSTILE }).click();
  await page.getByRole("heading", { name: HOSTILE }).waitFor();
  expect(await page.title()).toBe(HOSTILE);
  await page.getByLabel("Body (text/plain)").fill(HOSTILE);
  await payButton(page).click();
  await page.getByRole("heading", { name: "Result" }).waitFor();
  await page.locator("#outcome iframe").waitFor();
  for (const one of page.frames()) expect(await one.evaluate("globalThis.hacked")).toBeUndefined();
  // Opened by itself, the file is saved instead of shown.
  const saving = page.waitForEvent("download");
  await page.getByRole("link", { name: "Save (text/html" }).click();
  expect((await saving).suggestedFilename()).toMatch(/\.html$/);
});
