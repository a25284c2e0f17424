import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import type { AcceptedToken } from "../../../src/config/config.ts";
import { NO_TELEMETRY } from "../../../src/core/telemetry.ts";
import { refundGauges } from "../../../src/parts/refunds/gauges.ts";
import { Refunds } from "../../../src/parts/refunds/refunds.ts";
import type { RefundSum } from "../../../src/parts/refunds/store/ledger.ts";
import type { StoreTotals } from "../../../src/store/store.ts";
import type { Methods } from "../../../src/x402/methods/methods.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { until } from "../../helpers/until.ts";

const NOW = 1_900_000_000_000;
const LABELS = { state: "owed", network: "eip155:1", asset: "0xa", symbol: "USDC" } as const;
const SUM: RefundSum = { ...LABELS, refunds: 2, amount: 30n, oldestAt: NOW - 1_500 };
const TOTALS = { sums: { refunds: [SUM] } } as unknown as StoreTotals;

const short = { network: "eip155:1", asset: "0xa" };

function read(totals: StoreTotals | undefined) {
  return Object.fromEntries(
    refundGauges(() => [short]).map((gauge) => [gauge.name, gauge.read(totals, NOW)]),
  );
}

test("Refunds are measured by token and state, with the age of the oldest in seconds", () => {
  expect(read(TOTALS)).toEqual({
    jobgate_refunds: [[2, LABELS]],
    jobgate_refunds_amount: [[30, LABELS]],
    jobgate_refunds_oldest_age_seconds: [[1.5, LABELS]],
    jobgate_refund_account_short: [[1, short]],
  });
});

test("A store that does not answer leaves out all but the tokens that are short", () => {
  expect(read(undefined)).toEqual({
    jobgate_refunds: [],
    jobgate_refunds_amount: [],
    jobgate_refunds_oldest_age_seconds: [],
    jobgate_refund_account_short: [[1, short]],
  });
});

test("An age is never negative, though the clocks of two machines differ", () => {
  const early = { sums: { refunds: [{ ...SUM, oldestAt: NOW + 5 }] } } as unknown as StoreTotals;
  expect(read(early).jobgate_refunds_oldest_age_seconds).toEqual([[0, LABELS]]);
});

test("Refunds query the RPCs of networks that they have an account for, and no others", async () => {
  const { store, stop } = await openTestStore();
  const asked = new Set<string | undefined>();
  const rpc = createServer((request, response) => {
    asked.add(request.url);
    response.writeHead(503).end();
  });
  await new Promise<void>((listening) => rpc.listen(0, "127.0.0.1", listening));
  const { port } = rpc.address() as AddressInfo;
  const networks = ["solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "eip155:84532"];
  const tokens = networks.map((network) => {
    const rpcUrl = `http://127.0.0.1:${port}/${network}`;
    return { network, asset: "a", rpcUrl, confirmations: 1 } as AcceptedToken;
  });
  const refunds = new Refunds({
    config: {
      signer: { privateKey: `0x${"1".repeat(64)}` },
      accounts: new Map(),
      maxFeePerGasWei: 1n,
      minBalanceWei: 0n,
    },
    methods: { watch: () => ({}) } as unknown as Methods,
    tokens,
    store,
    logger: pino({ level: "silent" }),
    telemetry: NO_TELEMETRY,
  });
  onTestFinished(async () => {
    await refunds.stop();
    await stop();
    rpc.close();
  });
  await refunds.start();
  await until(() => asked.has("/eip155:84532"));
  expect([...asked]).toEqual(["/eip155:84532"]);
});
