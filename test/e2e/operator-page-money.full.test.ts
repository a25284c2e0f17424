import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterEach, expect, test, vi } from "vitest";
import { runHere } from "../commands/operator-commands.ts";
import { auditAccessibility, overflow } from "../helpers/page-audit.ts";
import { answerWith, openLoggedIn, PHONE, scene, startSceneBeforeAll } from "./operator-page-harness.ts";
import { OPERATOR_TOKEN } from "./operator-page-scene.ts";

startSceneBeforeAll();
afterEach(() => vi.unstubAllEnvs());

const NETWORK = "eip155:8453";
const token = { network: NETWORK, token: "USDC", asset: "0xa", decimals: 6 };
const none = { refunded: "0", charged_back: "0", lost: "0", corrected: "0", fees: "0" };

/** Cells of the rows of a table. */
const cells = async (page: Page, table: string) => {
  const rows = await page.getByRole("table", { name: table, exact: true }).locator("tbody tr").all();
  return Promise.all(rows.map((row) => row.locator("td").allTextContents()));
};
const midnight = (daysAgo: number) => (Math.floor(Date.now() / 86_400_000) - daysAgo) * 86_400_000;

test("A sale is in the net of its token, its job and its day within seconds, and the saved file is what the command exports", async () => {
  const page = await openLoggedIn("money?period=today");
  const before = await cells(page, "By job");
  await scene.pay("something to earn");
  await expect.poll(async () => cells(page, "By job")).not.toEqual(before);
  const [job] = await cells(page, "By job");
  const [sold, net] = [job?.[4], job?.at(-1)];
  // Columns of amounts that no row has are left out.
  expect(job?.slice(3)).toEqual(["1", sold, "–", net]);
  expect([sold, net]).toEqual([expect.stringMatching(/^[0-9.]*[1-9][0-9]*$/), sold]);
  await expect
    .poll(async () => (await cells(page, "Net by token"))[0]?.slice(2))
    .toEqual([net, "0", net, net]);
  expect((await cells(page, "By day")).map(([day]) => day)).toEqual([
    new Date(midnight(0)).toISOString().slice(0, 10),
  ]);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  const saved = await download;
  const times = [midnight(0), midnight(-1)].map((time) => new Date(time).toISOString());
  expect(saved.suggestedFilename()).toBe(
    `jobgate-${times[0]?.slice(0, 10)}-to-${times[0]?.slice(0, 10)}.csv`,
  );
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", OPERATOR_TOKEN);
  const [from = "", to = ""] = times;
  const target = scene.gateway.jobgate.operatorUrl;
  const { stdout } = await runHere("payments", "export", "--from", from, "--to", to, "--target", target);
  expect(stdout.split("\r\n")).toHaveLength(3);
  expect(await readFile(await saved.path(), "utf8")).toBe(stdout);
});

test("What is unclaimed, owed and held is listed with its time and its view, and nothing where nothing is known", async () => {
  const page = await openLoggedIn("money");
  await page.getByText("Nothing is owed, and no balance was read yet.").waitFor();
  const at = new Date(Date.now() - 3 * 3_600_000).toISOString();
  const sum = { network: NETWORK, asset: "0xa", symbol: "USDC" };
  await answerWith(page, "GetTotals", {
    channels: [{ ...sum, unclaimed: "5", unclaimed_text: "0.000005 USDC", oldest_at: at }],
    refunds: [
      { ...sum, state: "REFUND_STATE_OWED", amount: "7", amount_text: "0.000007 USDC", oldest_at: at },
      { ...sum, state: "REFUND_STATE_REFUNDED", amount: "9", amount_text: "0.000009 USDC" },
    ],
  });
  const account = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
  const holding = { network: NETWORK, account, pays: "settlements", symbol: "ETH", decimals: 18 };
  await answerWith(page, "ListHoldings", {
    holdings: [{ ...holding, amount: "1500000000000000000", read_at: at }],
  });
  await expect
    .poll(() => cells(page, "Owed and held"))
    .toEqual([
      ["Unclaimed in channels", "Base", "0.000005 USDC", "oldest since 3 h"],
      ["Refunds owed", "Base", "0.000007 USDC", "oldest since 3 h"],
      ["Account that pays settlements: 0x709979…79C8", "Base", "1.5 ETH", "read 3 h ago"],
    ]);
  const links = page.getByRole("table", { name: "Owed and held" }).getByRole("link");
  expect(await links.nth(0).getAttribute("href")).toBe("#/channels");
  expect(await links.nth(1).getAttribute("href")).toBe("#/refunds?state=owed");
});

test.each(["light", "dark"] as const)(
  "With 100,000 payments of 300 jobs the view fits a phone in %s, and axe-core has nothing to say",
  async (colorScheme) => {
    const page = await openLoggedIn("", { ...PHONE, colorScheme, reducedMotion: "reduce" });
    await page.route("**/SumMovements", (route) => {
      const { by } = route.request().postDataJSON();
      const sum = { ...token, ...none, payments: "100000", sold: "123456789012345", net: "-98765432109876" };
      const sums = Array.from({ length: by === "MOVEMENT_GROUP_JOB" ? 300 : 1 }, (_, index) => ({
        ...sum,
        ...(by === "MOVEMENT_GROUP_JOB" && { service_id: "1", job_index: index }),
        ...(by === "MOVEMENT_GROUP_DAY" && { day: new Date(midnight(1)).toISOString() }),
      }));
      return route.fulfill({ json: { sums } });
    });
    await page.getByRole("link", { name: "Money" }).click();
    await page.getByText("100 further rows").waitFor();
    expect((await cells(page, "Net by token"))[0]?.slice(2)).toEqual(Array(4).fill("-98,765,432.109876"));
    expect(await overflow(page)).toBe(0);
    expect((await auditAccessibility(page)).broken).toEqual([]);
  },
);
