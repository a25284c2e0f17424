import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { channelOperation } from "../../../src/parts/channels/operator.ts";
import type { SeenChannel } from "../../../src/parts/channels/store/chain-rules.ts";
import { CHANNELS } from "../../../src/parts/channels/store/module.ts";
import type { ChannelRow } from "../../../src/parts/channels/store/row.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { configOf } from "../../config/config-folder.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimCalls, claimOne, NETWORK, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const page = { isUrgent: false, after: undefined, limit: 100 } as const;
const AUTHORIZER = `0x${"a".repeat(40)}`;
const PAYER = `0x${"b".repeat(40)}`;
const chain: SeenChannel = { balance: "100", totalClaimed: "0", refundNonce: "0", withdrawAt: 0, block: 1 };
let hasKey = true;
let hasNetwork = true;
const network = {
  canSign: () => hasKey,
  count: async () => {},
  look: async (row: ChannelRow) => ({ row, chain }),
  readAll: async (rows: readonly unknown[]) => rows.map(() => chain),
};
const configuration = await configOf("service_id = 1\n");
const jobgate = startBeforeAll(() =>
  startOperator({
    token: TOKEN,
    additions: (store) => [
      {
        loadApi: async () =>
          channelOperation({
            ledger: store.of(CHANNELS),
            networkOf: () => (hasNetwork ? network : undefined),
            isConfigured: true,
            configuration: () => configuration,
            logger: pino({ level: "silent" }),
          }),
      },
    ],
  }),
);

let made = 0;
/** The newest channel: of 100, 10 are final and 10 are open. */
let id = "";

beforeEach(async () => {
  [hasKey, hasNetwork] = [true, true];
  id = `0x${String(++made).padStart(64, "0")}`;
  const ledger = jobgate.store.of(CHANNELS);
  for (const left of await claimCalls(jobgate.store)) await jobgate.store.ack(left);
  await buy(10, "100");
  await jobgate.store.ack(await claimOne(jobgate.store));
  await count();
  await buy(20);
  expect(await ledger.findChannel(id)).toMatchObject({ charged: "20", final: "10", balance: "100" });
});
afterEach(() => vi.unstubAllEnvs());

async function buy(cumulative: number, deposit?: string): Promise<void> {
  const voucher = { channelId: id, maxClaimableAmount: String(cumulative), signature: "0xa1" };
  const channelConfig = { payer: PAYER, receiver: PAYER, receiverAuthorizer: AUTHORIZER };
  const payload = { channelConfig, voucher, ...(deposit && { deposit: { amount: deposit } }) };
  const intent = paymentIntent(made * 100 + cumulative, {
    ...{ transferMethod: "channel", amount: "10", payload: JSON.stringify({ payload }) },
  });
  await jobgate.store.beginPayment(intent, paidCall());
  await jobgate.store.settlePayment(intent.key, "{}", "1");
}

async function count(): Promise<void> {
  const ledger = jobgate.store.of(CHANNELS);
  for (const { channelId, ...charges } of await ledger.listUncounted({ limit: 100 }))
    await ledger.countCharges(channelId, charges);
}

const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere("channels", ...args, "--target", jobgate.operator.address);
};
const decide = (action: string, ...args: string[]) =>
  run(action, ...args, "--note", "as agreed", "--by", "ada");
const rowsOf = (stdout: string) =>
  stdout
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((row) => row.split(/ {2,}/));
const amount = (units: number) => `${units} base units of USDC`;

describe("jobgate channels", () => {
  test("list prints a table, newest first, and names channels whose key is missing", async () => {
    hasKey = false;
    const { code, stdout } = await run("list", "--limit", "1");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^ID +STATE +DEPOSITED +CHARGED +CLAIMED +UNCLAIMED +LOST +NETWORK +PAYER +REASON\n/,
    );
    expect(rowsOf(stdout)).toEqual([
      [id, "open", amount(100), amount(20), amount(0), amount(10), amount(0), "Base Sepolia", PAYER].concat(
        `no key of authorizer ${AUTHORIZER} is configured`,
      ),
    ]);
  });

  test("list selects by --state, and reads page after page without repeating a channel", async () => {
    const ids = rowsOf((await run("list", "--all", "--state", "open")).stdout).map(([one]) => one);
    expect(ids[0]).toBe(id);
    expect(new Set(ids).size).toBe(ids.length);
    const client = await run("list", "--limit", "2", "--json");
    expect(
      client.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line).id),
    ).toEqual(ids.slice(0, 2));
    expect((await run("list", "--state", "withdrawing")).stdout).toBe("");
  });

  test("show prints its sums and the charges that are not final; exits with 1 for an ID of none", async () => {
    const { stdout } = await run("show", id);
    expect(stdout).toMatch(new RegExp(`^charged +${amount(20)}$`, "m"));
    expect(stdout).toMatch(new RegExp(`^unclaimed +${amount(10)}$`, "m"));
    expect(stdout).toMatch(/^CALL +CHARGE +AMOUNT +AT\n[0-9]+ +open +10 base units/m);
    expect(stdout).toMatch(new RegExp(`^lost +${amount(0)}$`, "m"));
    const none = `0x${"f".repeat(64)}`;
    expect(await run("show", none)).toMatchObject({ code: 1, stderr: `There is no channel ${none}.\n` });
  });

  test("show says that a deposit is under way while its call is charged already", async () => {
    const channelId = `0x${"f".repeat(64)}`;
    const voucher = { channelId, maxClaimableAmount: "10", signature: "0xa1" };
    const channelConfig = { payer: PAYER, receiver: PAYER, receiverAuthorizer: AUTHORIZER };
    const payload = JSON.stringify({ payload: { channelConfig, voucher, deposit: { amount: "100" } } });
    const intent = paymentIntent(9_999, { transferMethod: "channel", amount: "10", payload });
    await jobgate.store.beginPayment(intent, paidCall());
    expect((await run("show", channelId)).stdout).toMatch(/deposited +under way/);
    await jobgate.store.settlePayment(intent.key, "{}", "1");
    await count();
    expect((await run("show", channelId)).stdout).toContain(amount(100));
  });

  test("claim lets a channel be claimed at once, and show has who decided that and why", async () => {
    expect((await decide("claim", id)).stdout).toBe("claiming 1 channel\n");
    expect(await jobgate.store.of(CHANNELS).findChannel(id)).toMatchObject({ claim_soon: 1 });
    expect((await run("show", id)).stdout).toMatch(/^DECISION +BY +AT +NOTE\nclaim +ada +20\S+ +as agreed/m);
    await jobgate.store.of(CHANNELS).askClaims([id]);
    await jobgate.store.of(CHANNELS).seeChannel(id, { ...chain, totalClaimed: "10" });
    expect(await jobgate.store.of(CHANNELS).findChannel(id)).toMatchObject({ claim_soon: 0 });
    expect((await decide("claim", id)).stdout).toBe("nothing to claim\n");
  });

  test("claim without an ID lets all channels be claimed that have something to claim", async () => {
    const due = await jobgate.store.of(CHANNELS).listDueChannels(NETWORK, page);
    expect(due.length).toBeGreaterThan(1);
    expect((await decide("claim")).stdout).toBe(`claiming ${due.length} channels\n`);
    const after = await jobgate.store.of(CHANNELS).listDueChannels(NETWORK, page);
    expect(after.map(({ claim_soon }) => claim_soon)).toEqual(after.map(() => 1));
  });

  test("refund pays back what is not charged, once; exits with 1 if the configuration lacks the network", async () => {
    expect((await decide("refund", id)).stdout).toBe(`${id} ${amount(80)} is being paid back\n`);
    await decide("refund", id);
    expect(await jobgate.store.of(CHANNELS).listChannelDecisions(id, 10)).toMatchObject([
      { action: "refund", by_name: "ada", note: "as agreed" },
    ]);
    hasNetwork = false;
    expect(await decide("refund", id)).toMatchObject({ code: 1, stderr: expect.stringContaining(NETWORK) });
  });

  test("Exits with 2 for bad usage", async () => {
    for (const args of [
      [],
      ["show"],
      ["show", "12"],
      ["claim"],
      ["refund", "0x1", "--note", "x"],
      ["resume"],
    ])
      expect({ args, ...(await runHere("channels", ...args)) }).toMatchObject({ args, code: 2, stdout: "" });
  });
});
