/** Makes docs/images/shop-*.png: `node --import tsx test/e2e/shop-screenshots.ts [folder]`. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { accounts } from "../helpers/accounts.ts";
import { openPage, startBrowser } from "../helpers/browser.ts";
import { installWallet } from "../helpers/browser-wallet.ts";
import { startShop } from "./shop-scene.ts";

const [, , folder = fileURLToPath(new URL("../../docs/images", import.meta.url))] = process.argv;
const SUMMARY = "Servers ask for a price, clients sign and retry: payments without accounts.";

await mkdir(folder, { recursive: true });
const browser = await startBrowser();
const shop = await startShop({
  handle: () => ({ body: Buffer.from(SUMMARY), contentType: "text/plain" }),
  isTidy: true,
});

async function open(look: { readonly dark: boolean; readonly width: number; readonly height: number }) {
  const opened = await openPage(browser, "about:blank", {
    colorScheme: look.dark ? "dark" : "light",
    viewport: { width: look.width, height: look.height },
    reducedMotion: "reduce",
  });
  await installWallet(opened.page, { account: accounts.payer, anvil: shop.parts.anvil });
  return opened;
}

const list = await open({ dark: false, width: 1280, height: 620 });
await list.page.goto(shop.url);
await list.page.locator("#jobs > li").first().waitFor();
await list.page.screenshot({ path: join(folder, "shop-list.png") });
await list.close();

const payment = await open({ dark: false, width: 1280, height: 830 });
await payment.page.goto(shop.pageOf("summarise"));
await payment.page.getByText("Test Wallet").waitFor();
await payment.page.screenshot({ path: join(folder, "shop-payment.png") });
await payment.close();

const phone = await open({ dark: true, width: 390, height: 844 });
await phone.page.goto(shop.pageOf("summarise"));
await phone.page.locator("#pay").click();
await phone.page.getByRole("heading", { name: "Result" }).waitFor();
await phone.page.screenshot({ path: join(folder, "shop-phone.png") });
await phone.close();

await browser.close();
await shop.stop();
// The borrowed chain goes on.
process.exit();
