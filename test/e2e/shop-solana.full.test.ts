import { expect, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import { installSolanaWallet } from "../helpers/solana-browser-wallet.ts";
import { startSolanaFacilitator } from "../helpers/solana-facilitator.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startSolanaParts, tokenTable } from "../parts/solana/harness.ts";
import {
  payButton,
  problem,
  seeResult,
  shop,
  startShopBeforeAll,
  visit,
  visitWithSolana,
} from "./shop-harness.ts";

const solana = startBeforeAll(startSolanaParts);
const facilitator = startBeforeAll(() => startSolanaFacilitator(solana.cluster));
startShopBeforeAll((config) =>
  config
    .replace(/facilitator_url = (.*)\n/, "")
    .replace(
      "[job_pricing.1]",
      `${[/facilitator_url = (.*)\n/.exec(config)?.[1], `"${facilitator.url}"`]
        .map((url) => `[[x402.facilitators]]\nurl = ${url}\n`)
        .join("")}${tokenTable(solana)}\n[job_pricing.1]`,
    ),
);

const ON_SOLANA = /USDC\s*Solana Devnet/;
const SOLANA_CODE = /\/solana-\w+\.js$/;
/** Units that the seller has on Solana. */
const earned = async () => (await solana.cluster.balanceOf(solana.seller, solana.mint)) ?? 0n;
const CENT = 10_000n;

test("A person chooses a token on Solana, pays with a Wallet Standard wallet, reads the result, and a reload pays nothing again", async () => {
  const before = await earned();
  const { page, wallet } = await visitWithSolana(shop.url);
  await page.getByText("USDC on Base Sepolia, USDC on Solana Devnet").first().waitFor();
  await page.getByRole("link", { name: "Find the shortest round trip" }).click();
  await page.getByText("Sun Wallet").waitFor();
  expect(await page.getByLabel(ON_SOLANA).isChecked()).toBe(true);
  expect(await page.locator("#offers label", { hasText: "Solana Devnet" }).textContent()).toContain(
    "test money",
  );
  await payButton(page).click();
  await seeResult(page, '"km": 584.2');
  expect(await earned()).toBe(before + 5n * CENT);
  expect(wallet.signedFor).toEqual(["solana:devnet"]);
  const kept = await page.locator(".keep .mono").allTextContents();
  expect(kept.slice(0, 2)).toEqual(["0.05 USDC", solana.cluster.landed.at(-1)?.signature]);

  await page.reload();
  await seeResult(page, '"km": 584.2');
  expect(await earned()).toBe(before + 5n * CENT);
  expect(wallet.signed).toHaveLength(1);
});

test("A page with wallets of both kinds shows the wallets that can pay in the chosen token", async () => {
  const [onEvm, onSolana] = [await shop.parts.usdc.balanceOf(accounts.payTo.address), await earned()];
  const { page, wallet: evm } = await visit("about:blank");
  const wallet = await installSolanaWallet(page);
  await page.goto(shop.pageOf("route"));
  const shown = page.locator("#wallets label");
  await expect.poll(() => shown.allTextContents()).toEqual(["Test Wallet"]);
  await page.getByLabel(ON_SOLANA).check();
  expect(await shown.allTextContents()).toEqual(["Sun Wallet"]);
  await payButton(page).click();
  await seeResult(page, '"km": 584.2');
  expect(await earned()).toBe(onSolana + 5n * CENT);
  expect(evm.asked).toEqual([]);

  await page.getByRole("button", { name: "Buy another run" }).click();
  await page.getByLabel("Base Sepolia").first().check();
  expect(await shown.allTextContents()).toEqual(["Test Wallet"]);
  await payButton(page).click();
  await seeResult(page, '"km": 584.2');
  expect(await earned()).toBe(onSolana + 5n * CENT);
  expect(await shop.parts.usdc.balanceOf(accounts.payTo.address)).toBe(onEvm + 5n * CENT);
  expect(wallet.signed).toHaveLength(1);
});

test("The page of a job that is not sold on Solana loads no code for it, and finds no wallet for Solana alone", async () => {
  const { page } = await visitWithSolana("about:blank");
  const scripts: string[] = [];
  page.on("request", (request) => scripts.push(request.url()));
  await page.goto(shop.pageOf("permitted"));
  await page.getByText("No wallet for Base Sepolia is found in this browser.").waitFor();
  expect(scripts.filter((url) => SOLANA_CODE.test(url))).toEqual([]);
  await page.goto(shop.pageOf("route"));
  await page.getByText("Sun Wallet").waitFor();
  expect(scripts.filter((url) => SOLANA_CODE.test(url))).toHaveLength(1);
});

test.each([
  [{ message: "User rejected the request." }, "You rejected the request in the wallet. Nothing was paid."],
  [{ message: "No.", code: 4001 }, "You rejected the request in the wallet. Nothing was paid."],
  [{ message: "the ledger is locked" }, "Sun Wallet says: the ledger is locked. Nothing was paid."],
])("A wallet that answers %j sends nothing, and the same button tries again", async (refusal, words) => {
  const before = await earned();
  const { page, wallet } = await visitWithSolana(shop.pageOf("route"));
  wallet.refuses = refusal;
  await payButton(page).click();
  await problem(page).getByText(words).waitFor();
  expect(await earned()).toBe(before);
  wallet.refuses = undefined;
  await payButton(page).click();
  await seeResult(page, '"km": 584.2');
  expect(await earned()).toBe(before + 5n * CENT);
});

test("A wallet on another cluster is told which one to change to, and a wallet that does not know the cluster is explained", async () => {
  const { page, wallet } = await visitWithSolana(shop.pageOf("route"), [
    { accountChains: ["solana:mainnet"] },
    { name: "Main Wallet", chains: ["solana:mainnet"] },
  ]);
  await payButton(page).click();
  await problem(page).getByText("Sun Wallet is on the wrong network. Change it to Solana Devnet").waitFor();
  await page.getByLabel("Main Wallet").check();
  await payButton(page).click();
  await problem(page).getByText("Main Wallet does not know Solana Devnet.").waitFor();
  expect(wallet.signedFor).toEqual([]);
  wallet.accountChains = ["solana:mainnet", "solana:devnet"];
  await page.getByLabel("Sun Wallet").check();
  await payButton(page).click();
  await seeResult(page, '"km": 584.2');
});

test("An account with too little is told so by the seller, and the price that follows the form is paid", async () => {
  const { page } = await visitWithSolana(shop.pageOf("print"), [{ name: "Poor Wallet", account: 9 }, {}]);
  const before = await earned();
  await page.getByLabel("Pages").fill("7");
  await expect.poll(() => payButton(page).textContent()).toBe("Pay 0.14 USDC");
  await payButton(page).click();
  await problem(page).getByText("Check that the account has enough of the token.").waitFor();
  await problem(page).getByText("Nothing was paid.").waitFor();
  expect(await earned()).toBe(before);
  await page.getByLabel("Sun Wallet").check();
  await expect.poll(() => payButton(page).textContent()).toBe("Pay 0.14 USDC");
  await payButton(page).click();
  await seeResult(page, "printed");
  expect(await earned()).toBe(before + 14n * CENT);
});

test("A payment that is signed too late for its blockhash is not sent", async () => {
  const before = await earned();
  const { page, wallet } = await visitWithSolana("about:blank");
  await page.clock.install();
  await page.goto(shop.pageOf("route"));
  wallet.whileSigning = () => page.clock.fastForward(60_000);
  await payButton(page).click();
  await problem(page).getByText("the network would no longer take the payment. Nothing was paid").waitFor();
  expect(await earned()).toBe(before);
  expect(wallet.signed).toHaveLength(1);
});

test("A lost answer is requested again with the same transaction", async () => {
  const before = await earned();
  const { page, wallet } = await visitWithSolana(shop.pageOf("route"));
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
  await seeResult(page, '"km": 584.2');
  expect(sent).toHaveLength(2);
  expect(sent[1]).toBe(sent[0]);
  expect(wallet.signed).toHaveLength(1);
  expect(await earned()).toBe(before + 5n * CENT);
});

test("A wallet that signs no transactions of version 0, and other programs' registrations, are left out", async () => {
  const { page } = await visitWithSolana("about:blank", [{ name: "Old Wallet", versions: ["legacy"] }, {}]);
  await page.addInitScript(`
    const api = { detail: ({ register }) => register(null, 1, {}, { name: "No Wallet", chains: [], features: {} }) };
    dispatchEvent(new CustomEvent("wallet-standard:register-wallet", { detail: "not a function" }));
    addEventListener("wallet-standard:app-ready", ({ detail }) => api.detail(detail));
  `);
  await page.goto(shop.pageOf("route"));
  await expect.poll(() => page.locator("#wallets label").allTextContents()).toEqual(["Sun Wallet"]);
});

test("With the keyboard alone a job is bought on Solana, and axe-core has nothing to say about the page", async () => {
  const { page, wallet } = await visitWithSolana(shop.pageOf("route"));
  const audit = async (state: string) => {
    const { broken } = await auditAccessibility(page);
    expect({ state, broken, overflow: await overflow(page) }).toEqual({ state, broken: [], overflow: 0 });
  };
  await page.getByText("Sun Wallet").waitFor();
  await audit("job");
  wallet.refuses = { message: "User rejected the request." };
  await payButton(page).focus();
  await page.keyboard.press("Enter");
  await problem(page).getByText("You rejected the request in the wallet.").waitFor();
  await audit("refused");
  wallet.refuses = undefined;
  await page.keyboard.press("Enter");
  await page.locator("#outcome-title:focus").waitFor();
  await seeResult(page, '"km": 584.2');
  await page.getByText("Receipt and access token").click();
  await audit("result");
});
