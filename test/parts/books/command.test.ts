import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { TRANSACTIONS } from "../../../src/parts/transactions/store/module.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { callJson, startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import {
  ACCOUNT,
  NETWORK,
  newTransaction,
  paidCall,
  paymentIntent,
  signedTransaction,
} from "../../store/store-fixtures.ts";

const HEADER =
  "time,kind,network,token,asset,transaction,block,base_units,amount,account,counterparty,call_id,service_id,job_index,price,currency,rate";
const HASH = `0x${"ab".repeat(32)}`;
const FROM = new Date(Date.now() - 3_600_000).toISOString();
const TO = new Date(Date.now() + 3_600_000).toISOString();

const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));
let sold = 0;

afterEach(() => vi.unstubAllEnvs());

async function sell(overrides: Partial<PaymentIntent> = {}): Promise<number> {
  const intent = paymentIntent(++sold, overrides);
  const begun = await jobgate.store.beginPayment(intent, paidCall());
  await jobgate.store.settlePayment(intent.key, JSON.stringify({ transaction: HASH }), "9184");
  return begun.kind === "begun" ? begun.callId : 0;
}

async function payFee(wei: string): Promise<void> {
  const { store } = jobgate;
  const journal = store.of(TRANSACTIONS);
  const { reference } = newTransaction(1);
  await journal.queueTransaction(newTransaction(1));
  await store.holdLock(NETWORK, "one", 60_000);
  await journal.signTransactions(NETWORK, "one", [signedTransaction(1, 0)]);
  const end = { reference, state: "reverted", hash: "0xhash0", blockNumber: "77", fee: wei } as const;
  await journal.finishTransactions(NETWORK, "one", [end]);
}

const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere("payments", "export", ...args, "--target", jobgate.operator.address);
};
const exported = (...args: string[]) => run("--from", FROM, "--to", TO, ...args);
const cells = (csv: string) => csv.split("\r\n").map((line) => line.split(","));

describe("jobgate payments export", () => {
  let ids: number[] = [];
  beforeAll(async () => {
    ids = [
      await sell({ rate: "3264.5", decimals: 6 }),
      await sell({ price: "$0.01", rate: "1", decimals: 6, amount: "10000", symbol: "=cmd|' /C calc'!A0" }),
      await sell(),
    ];
    await payFee("123456789012345678901");
  });

  test("Prints each movement as a row of CSV, with exact amounts, and nothing for what is not known", async () => {
    const { code, stdout } = await exported();
    expect(code).toBe(0);
    const [header, ...rows] = cells(stdout);
    expect(header?.join()).toBe(HEADER);
    const { key, payTo, serviceId } = paymentIntent(1);
    const time = expect.stringMatching(/^20[0-9-]+T[0-9:]+\.[0-9]{3}Z$/);
    const of = [payTo.toLowerCase(), key.payer];
    const row = (token: string, units: string, amount: string, ...more: string[]) => [
      time,
      "payment",
      NETWORK,
      token,
      key.asset,
      HASH,
      "9184",
      units,
      amount,
      ...of,
      ...more,
    ];
    expect(rows).toEqual([
      row("USDC", "3264000", "3.264", String(ids[0]), String(serviceId), "7", "0.001", "native", "3264.5"),
      row("'=cmd|' /C calc'!A0", "10000", "0.01", String(ids[1]), String(serviceId), "7", "0.01", "USD", "1"),
      row("USDC", "3264000", "3.264", String(ids[2]), String(serviceId), "7", "0.001", "native", "3264"),
      [
        ...[time, "network_fee", NETWORK, "native", "", "0xhash0", "77", "-123456789012345678901"],
        ...["-123.456789012345678901", ACCOUNT, "", "", "", "", "", "", ""],
      ],
      [""],
    ]);
  });

  test("Prints lines of JSON, as the API returns them", async () => {
    const { stdout } = await exported("--format", "jsonl");
    const [first, , , fee, ...more] = stdout.split("\n");
    expect(more).toEqual([""]);
    expect(JSON.parse(first ?? "")).toMatchObject({
      ...{ kind: "MOVEMENT_KIND_PAYMENT", token: "USDC", base_units: "3264000", amount: "3.264" },
      ...{ call_id: String(ids[0]), service_id: "18446744073709551615", job_index: 7 },
      ...{ price: "0.001", currency: "native", rate: "3264.5", block: "9184" },
    });
    expect(JSON.parse(fee ?? "")).toEqual({
      time: expect.stringMatching(/Z$/),
      ...{
        kind: "MOVEMENT_KIND_NETWORK_FEE",
        network: NETWORK,
        token: "native",
        asset: "",
        counterparty: "",
      },
      ...{ transaction: "0xhash0", block: "77", account: ACCOUNT },
      ...{ base_units: "-123456789012345678901", amount: "-123.456789012345678901" },
      ...{ price: "", currency: "", rate: "" },
    });
  });

  test("Prints the same bytes again, and the parts of a period are the whole", async () => {
    const before = await exported();
    const rows = cells(before.stdout).slice(1, -1);
    expect((await exported()).stdout).toBe(before.stdout);
    const middle = rows[1]?.[0] ?? "";
    const [first, second] = [
      await run("--from", FROM, "--to", middle),
      await run("--from", middle, "--to", TO),
    ];
    const body = (csv: string) => csv.slice(csv.indexOf("\r\n") + 2);
    expect(body(first.stdout) + body(second.stdout)).toBe(body(before.stdout));
  });

  test("Reads a period of two pages in order, without a gap or a repeat", async () => {
    const more = await Promise.all(Array.from({ length: 620 }, () => sell()));
    const { stdout } = await exported();
    const rows = cells(stdout).slice(1, -1);
    const callIds = rows.slice(4).map((row) => Number(row[11]));
    expect(callIds.toSorted((a, b) => a - b)).toEqual(more.toSorted((a, b) => a - b));
    const times = rows.map(([time = ""]) => time);
    expect(times).toEqual(times.toSorted());
    expect((await exported()).stdout).toBe(stdout);
  });

  test("Says that a period is not over, on stderr, and prints the header alone for a period without movements", async () => {
    expect((await exported()).stderr).toBe("The period is not over: a later export has more rows.\n");
    const empty = await run("--from", "2020-01-01", "--to", "2020-02-01");
    expect(empty).toEqual({ code: 0, stdout: `${HEADER}\r\n`, stderr: "" });
    expect((await run("--from", "2020-01-01", "--to", "2020-02-01", "--format", "jsonl")).stdout).toBe("");
  });

  test("Exits with 2 for bad usage", async () => {
    for (const args of [
      [],
      ["--from", FROM],
      ["--from", "soon", "--to", TO],
      ["--from", FROM, "--to", TO, "--format", "xls"],
      ["--from", TO, "--to", FROM],
    ]) {
      const { code, stdout } = await runHere("payments", "export", ...args);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
    }
  });
});

describe("jobgate payments sums", () => {
  const sums = (...args: string[]) => {
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
    return runHere("payments", "sums", ...args, "--target", jobgate.operator.address);
  };
  const rows = (table: string) =>
    table
      .trimEnd()
      .split("\n")
      .map((line) => line.trim().split(/ {2,}/));
  const today = new Date().toISOString().slice(0, 10);
  const answerOf = async (...args: string[]) => JSON.parse((await sums("--json", ...args)).stdout);

  test("Says what each token earned today, yesterday, in 7 and in 30 days, net", async () => {
    const { code, stdout } = await sums();
    expect(code).toBe(0);
    const [heading, ...lines] = rows(stdout);
    expect(heading).toEqual([
      ...["period", "token", "network", "payments", "sold", "refunded", "charged back", "lost", "corrected"],
      ...["fees", "net"],
    ]);
    const fee = "123.456789012345678901";
    const [units, payments] = [expect.stringMatching(/^[0-9.]+$/), expect.stringMatching(/^[1-9][0-9]*$/)];
    expect(lines).toContainEqual([
      ...[`Today, ${today}`, "native", "Base Sepolia", "0", "0", "0", "0", "0", "0", fee, `-${fee}`],
    ]);
    expect(lines).toContainEqual([
      ...[expect.stringMatching(/^30 days, .* to /), "USDC", "Base Sepolia", payments, units],
      ...["0", "0", "0", "0", "0", units],
    ]);
    for (const name of ["Today", "Yesterday", "7 days", "30 days"]) {
      const tokens = lines.filter(([period]) => period?.startsWith(name)).map(([, token]) => token);
      expect(tokens).toHaveLength(3);
      expect([tokens[0], tokens[2]]).toEqual(["USDC", "native"]);
    }
    const yesterday = lines.filter(([period]) => period?.startsWith("Yesterday, "));
    expect(yesterday.map(([, token]) => token).sort()).toEqual(
      lines.flatMap(([period, token]) => (period?.startsWith("30 days") ? [token] : [])).sort(),
    );
    for (const [, , , ...numbers] of yesterday) expect(new Set(numbers)).toEqual(new Set(["0"]));
  });

  test("Sums days, jobs, tokens and networks, as the API returns them with --json", async () => {
    const byDay = await answerOf("--by", "day");
    const byJob = await answerOf("--by", "job", "--since", today);
    const byToken = await answerOf("--by", "token");
    const since = new Date(Date.parse(today) - 29 * 86_400_000).toISOString().replace(".000", "");
    expect([byDay.since, byJob.since]).toEqual([since, `${today}T00:00:00Z`]);
    expect(byDay.sums.map(({ day }: { day: string }) => day)).toEqual(
      byDay.sums.map(() => `${today}T00:00:00Z`),
    );
    const job = { service_id: "18446744073709551615", job_index: 7 };
    expect(byJob.sums.slice(0, -1)).toEqual(
      byToken.sums.slice(0, -1).map((sum: object) => ({ ...sum, ...job })),
    );
    expect(byJob.sums.at(-1)).toEqual(byToken.sums.at(-1));
    expect(byToken.sums.at(-1)).toMatchObject({ token: "native", asset: "", decimals: 18, payments: "0" });
    expect(await answerOf("--by", "network")).toEqual(byToken);
    expect(rows((await sums("--by", "job")).stdout).map(([cell]) => cell)).toEqual([
      ...["job", ...byJob.sums.slice(1).map(() => "18446744073709551615/7"), "of no job"],
    ]);
  });

  test("JOBGATE_BY, an operator's name elsewhere, says nothing about sums", async () => {
    const { stdout } = await sums();
    vi.stubEnv("JOBGATE_BY", "a name");
    expect((await sums()).stdout).toBe(stdout);
  });

  test("A period has every UTC day that it touches, and the day of --until", async () => {
    const [start, end] = ["2026-01-31T00:00:00Z", "2026-02-02T00:00:00Z"];
    const period = async (...args: string[]) => {
      const { since, until } = await answerOf(...args);
      return [since, until];
    };
    for (const until of ["2026-02-01", "2026-02-01T23:59:59Z"])
      expect(await period("--since", "2026-01-31T23:59Z", "--until", until)).toEqual([start, end]);
    expect(await period("--until", "2026-03-01")).toEqual(["2026-01-31T00:00:00Z", "2026-03-02T00:00:00Z"]);
    const day = "2026-02-01";
    expect(await period("--since", day, "--until", day)).toEqual(["2026-02-01T00:00:00Z", end]);
  });

  test("A period that is empty or too long, and an unknown field, are refused", async () => {
    for (const [since, reason] of [
      ["2026-02-03", "since: expected a time before until."],
      ["1999-01-01", "since: expected at most 3660 days before until."],
    ] as const) {
      const { code, stderr } = await sums("--since", since, "--until", "2026-02-02");
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(reason) });
    }
    expect((await sums("--by", "moon")).code).toBe(2);
    const { status, answer } = await callJson(
      jobgate.url,
      "SumMovements",
      { days: 3 },
      { authorization: `Bearer ${TOKEN}` },
    );
    expect([status, answer.message]).toEqual([400, expect.stringContaining("days")]);
  });
});
