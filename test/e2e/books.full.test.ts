import type { Hex } from "viem";
import { expect, test } from "vitest";
import { type Movement, MovementKind } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { runHere } from "../commands/operator-commands.ts";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { readBooks, sumOf } from "./books.ts";
import { localSettler } from "./local-facilitator.ts";
import { authorize, decided, startMeteredGateway, startMeteredParts } from "./metered.ts";
import { AMOUNT } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

/** Blocks after which a transaction counts as final, and its fee is known. */
const FINAL_BLOCKS = 12;
const { PAYMENT, CHARGE, REFUND, NETWORK_FEE } = MovementKind;
const payTo = accounts.payTo.address;

const parts = startBeforeAll(startMeteredParts);
const settings = startBeforeAll(async () => {
  const settler = await localSettler({ anvil: parts.anvil, keys: 2 });
  const refunds = await refundAccount(parts);
  await parts.usdc.mint(refunds.address, 10n * AMOUNT);
  return { settler, refunds, stop: () => Promise.resolve() };
});
/** Job 0 is metered, and job 1 is refunded when it fails. */
const gateway = startBeforeAll(() =>
  startMeteredGateway({
    parts,
    setUp: "rpc_url",
    edit(config) {
      const edited = settings.refunds.edit(settings.settler.edit(config));
      return edited
        .replace('[[jobs]]\njob_index = 0\non_failure = "refund"\n', "")
        .replace('"ask"', '"refund"');
    },
  }),
);

async function balances() {
  const wei = (address: Hex) => parts.anvil.client.getBalance({ address });
  const { settler, refunds } = settings;
  const settlers = await Promise.all(settler.addresses.map(wei));
  return {
    received: await parts.usdc.balanceOf(payTo),
    refunded: await parts.usdc.balanceOf(refunds.address),
    settlers: settlers.reduce((sum, one) => sum + one, 0n),
    refundGas: await wei(refunds.address),
  };
}

function booked(books: readonly Movement[]): Awaited<ReturnType<typeof balances>> {
  const { settler, refunds } = settings;
  const asset = parts.usdc.address;
  return {
    received: sumOf(books, { account: payTo, asset }),
    refunded: sumOf(books, { account: refunds.address, asset }),
    settlers: settler.addresses.reduce((sum, account) => sum + sumOf(books, { account }), 0n),
    refundGas: sumOf(books, { account: refunds.address }),
  };
}

test("The books add up to the change of every balance on the chain, to the last unit and wei", async () => {
  const from = new Date(Date.now() - 60_000).toISOString();
  const before = await balances();
  for (const body of ["all", `${AMOUNT / 3n}`, "1", "0", "fail"]) {
    const bought = await gateway.send(await authorize(gateway), { body: `${body} of what is metered` });
    await decided(gateway, bought);
  }
  const fixed = await Promise.all(
    ["one", "two", "fail"].map(async (body) => {
      const payment = await gateway.sign({ job: 1 });
      return gateway.send(payment, { job: 1, body: `${body === "fail" ? "fail" : "all"} ${body}` });
    }),
  );
  expect(fixed.map(({ status }) => status)).toEqual([202, 202, 202]);
  const moved = [PAYMENT, PAYMENT, PAYMENT, CHARGE, CHARGE, CHARGE, REFUND];
  const kinds = async () => {
    const books = await readBooks(gateway);
    return books.map(({ kind }) => kind).toSorted((a, b) => a - b);
  };
  await expect.poll(kinds, { interval: 50 }).toEqual(moved);
  await parts.anvil.client.mine({ blocks: FINAL_BLOCKS });
  await expect.poll(kinds, { interval: 50 }).toEqual([...moved, ...moved.map(() => NETWORK_FEE)]);

  const books = await readBooks(gateway);
  const after = await balances();
  expect(booked(books)).toEqual({
    received: after.received - before.received,
    refunded: after.refunded - before.refunded,
    settlers: after.settlers - before.settlers,
    refundGas: after.refundGas - before.refundGas,
  });
  expect(after.received - before.received).toBe(3n * AMOUNT + AMOUNT + AMOUNT / 3n + 1n);
  expect(after.refunded - before.refunded).toBe(-AMOUNT);
  for (const { transaction, block, kind, price, rate } of books) {
    const receipt = await parts.anvil.client.getTransactionReceipt({ hash: transaction as Hex });
    expect(block).toBe(String(receipt.blockNumber));
    expect({ kind, price, rate }).toEqual(
      kind === NETWORK_FEE ? { kind, price: "", rate: "" } : { kind, price: "0.001", rate: "3200.00" },
    );
  }

  const to = new Date(Date.now() + 60_000).toISOString();
  const exported = async () => {
    const args = ["--from", from, "--to", to, "--target", gateway.jobgate.operatorUrl];
    return (await runHere("payments", "export", ...args)).stdout;
  };
  const csv = await exported();
  expect(
    csv
      .trimEnd()
      .split("\r\n")
      .slice(1)
      .map((line) => line.split(",")[7]),
  ).toEqual(books.map(({ baseUnits }) => baseUnits));
  await gateway.restart();
  expect(await exported()).toBe(csv);
});
