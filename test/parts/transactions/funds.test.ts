import { pino } from "pino";
import { expect, test } from "vitest";
import { Funds } from "../../../src/parts/transactions/funds.ts";

const ADDRESS = "0xA1";

test("Holdings are the balances as they were last read, with that time, and are read again meanwhile, but not twice at once", async () => {
  let now = 1_000;
  let wei = 5n;
  let queries = 0;
  const funds = new Funds({
    network: "eip155:8453",
    chain: {
      async balance() {
        queries++;
        return wei;
      },
    },
    addresses: [ADDRESS],
    minBalanceWei: 0n,
    clock: () => now,
    logger: pino({ level: "silent" }),
  });
  const held = { network: "eip155:8453", account: ADDRESS, symbol: "ETH", asset: undefined, decimals: 18 };
  const isShort = false;
  expect([funds.holdings(), funds.holdings(), queries]).toEqual([[], [], 1]);
  await funds.require();
  now = 60_000;
  wei = 9n;
  expect(funds.holdings()).toEqual([{ ...held, amount: 5n, isShort, readAt: 1_000 }]);
  expect(queries).toBe(2);
  await funds.require();
  expect(funds.holdings()).toEqual([{ ...held, amount: 9n, isShort, readAt: 60_000 }]);
});
