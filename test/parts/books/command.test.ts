import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import { TRANSACTIONS } from "../../../src/parts/transactions/store/module.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
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

  test("Reads a period of many pages in order, without a gap or a repeat", async () => {
    const more = await Promise.all(Array.from({ length: 1_100 }, () => sell()));
    const { stdout } = await exported();
    const rows = cells(stdout).slice(1, -1);
    const callIds = rows.slice(4).map((row) => Number(row[11]));
    expect(callIds.toSorted((a, b) => a - b)).toEqual(more.toSorted((a, b) => a - b));
    const times = rows.map(([time = ""]) => time);
    expect(times).toEqual(times.toSorted());
    expect((await exported()).stdout).toBe(stdout);
  });

  test("Says that a period is not over, on stderr, and prints the header alone for one without movements", async () => {
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
