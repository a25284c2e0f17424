import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { runHereWith } from "../../commands/operator-commands.ts";
import type { TestAccount } from "../../helpers/accounts.ts";
import { readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { DEPOSIT, KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() => startChannelShop(parts));

/** Makes a payer, the folder of his channels, and his `jobgate pay`. */
async function newBuyer() {
  const payer = await newPayer(parts);
  const state = await mkdtemp(join(tmpdir(), "jobgate-pay-"));
  onTestFinished(() => rm(state, { recursive: true }));
  const folder = join(state, "jobgate", "channels", payer.address.toLowerCase(), "client");
  const pay = (body: string, ...args: string[]) =>
    runHereWith(["pay", shop.urlOf(KEPT), "--max", "1000", "--no-wait", "--body", "body", ...args], {
      files: { body },
      env: { JOBGATE_PAYER_KEY: payer.privateKey, XDG_STATE_HOME: state },
    });
  const channel = async () => {
    const [file = ""] = await readdir(folder);
    return { id: file.replace(".json", "") as `0x${string}`, path: join(folder, file) };
  };
  return { payer, pay, folder, channel };
}

const ran = () => shop.runner.calls.map(({ body }) => Buffer.from(body).toString());
const balanceOf = ({ address }: TestAccount) => parts.usdc.balanceOf(address);

test("The first payment deposits, later ones are vouchers, and the rest is paid back", async () => {
  const { payer, pay } = await newBuyer();
  const before = await balanceOf(payer);
  const first = await pay("first", "--deposit", "0.02");
  expect([first.code, first.stderr]).toEqual([0, expect.stringMatching(/^deposit +0\.02 USDC$/m)]);
  expect(await balanceOf(payer)).toBe(before - 20_000n);
  for (const body of ["second", "third"]) {
    const { code, stderr } = await pay(body, "--deposit", "0.02");
    expect([code, stderr]).toEqual([0, expect.not.stringMatching(/^(deposit|transaction) /m)]);
  }
  expect(await balanceOf(payer)).toBe(before - 20_000n);
  await shop.runner.waitFor(3);
  expect(ran()).toEqual(expect.arrayContaining(["first", "second", "third"]));
  await vi.waitFor(async () => expect(await pay("", "--refund")).toMatchObject({ code: 0 }), 20_000);
  expect(await balanceOf(payer)).toBe(before - 3n * PRICE);
  // The sums of the channel are gone, and can be read from the chain.
  expect(await pay("", "--refund")).toMatchObject({
    code: 1,
    stderr:
      "There is no channel with anything left to be paid back, unless its sums were lost; --rpc-url reads them from the chain\n",
  });
  expect(await pay("", "--refund", "--rpc-url", parts.anvil.rpcUrl)).toMatchObject({
    code: 1,
    stderr: "The channel has nothing left to be paid back\n",
  });
  expect(await balanceOf(payer)).toBe(before - 3n * PRICE);
});

test("Sums that are lost or outdated are had again from the chain and the seller, without another deposit", async () => {
  const { payer, pay, channel } = await newBuyer();
  const args = ["--deposit", "0.01", "--rpc-url", parts.anvil.rpcUrl];
  expect(await pay("one", ...args)).toMatchObject({ code: 0 });
  expect(await pay("two", ...args)).toMatchObject({ code: 0 });
  const after = await balanceOf(payer);
  const { path, id } = await channel();
  const sums = JSON.parse(await readFile(path, "utf8"));
  expect(sums).toMatchObject({ chargedCumulativeAmount: String(2n * PRICE) });
  await writeFile(path, JSON.stringify({ ...sums, chargedCumulativeAmount: String(PRICE) }));
  expect(await pay("outdated", ...args)).toMatchObject({ code: 0 });
  await rm(path);
  expect(await pay("lost", ...args)).toMatchObject({ code: 0 });
  expect(await balanceOf(payer)).toBe(after);
  expect((await readChannels(parts.anvil, "channels", id))[0]).toBe(DEPOSIT);
  await vi.waitFor(() => {
    for (const body of ["one", "two", "outdated", "lost"])
      expect(ran().filter((one) => one === body)).toHaveLength(1);
  }, 20_000);
});

test("A deposit that is too low, and a job that is not sold from channels, are refused before anything is signed", async () => {
  const { payer, pay } = await newBuyer();
  const before = await balanceOf(payer);
  expect(await pay("low", "--deposit", "0.009999")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("--deposit is 0.009999 USDC; expected at least 0.01 USDC"),
  });
  expect(await pay("elsewhere", "--deposit", "0.02", "--network", "base")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("not offered on base"),
  });
  expect(await pay("", "--refund")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^There is no channel with anything left to be paid back/m),
  });
  expect(await balanceOf(payer)).toBe(before);
  expect(ran()).not.toContain("low");
});
