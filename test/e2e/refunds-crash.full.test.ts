import pLimit from "p-limit";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { describe, expect, it } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { atOnce } from "../helpers/at-once.ts";
import { howMany } from "../helpers/how-many.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";
import { REFUND_POINTS, refundAccount } from "./refund-account.ts";

/** Rounds of each crash. */
const ROUNDS = howMany(1, 10);
const BUYERS_IN_MATRIX = 4;
const BUYERS = howMany(20, 200);
const timeout = 1_200_000;
/** Bounds each wait, on a machine that does other things too. */
const WAIT_MS = 900_000;
/** Purchases in progress. */
const MAX_PURCHASES = 16;

const postgres = startBeforeAll(startPostgres);

/** Gateways on one store whose jobs all fail, with a chain and buyers of their own. */
async function startSite(options: {
  readonly buyers: number;
  readonly on?: Postgres;
  readonly crashAt?: string;
}) {
  const { buyers, on, crashAt } = options;
  const parts = await startPaidParts();
  const account = await refundAccount(parts);
  await parts.usdc.mint(account.address, BigInt(buyers) * AMOUNT);
  const storeUrl = await on?.createDatabase();
  // All is bought before the first job fails: what a crash does to a purchase is the matter of other tests.
  let failJobs = (): void => undefined;
  const isBought = new Promise<void>((resolve) => {
    failJobs = resolve;
  });
  const start = (env: Record<string, string> = {}) =>
    startPaidGateway({
      parts,
      setUp: "rpc_url",
      edit: account.edit,
      asProcess: true,
      env,
      ...(storeUrl === undefined ? {} : { storeUrl }),
      handle: async () => {
        await isBought;
        throw new Fail("no good");
      },
    });
  // The first to start sends the refunds.
  const first = await start(crashAt === undefined ? {} : { JOBGATE_CRASH_AT: crashAt });
  const gateways = on === undefined ? [first] : [first, await start()];
  const payers: TestAccount[] = [];
  // Longer than all take to buy.
  const validBefore = String((await parts.chainTimeSecs()) + timeout / 1_000);
  const payments: Payment[] = [];
  while (payers.length < buyers) {
    const privateKey = generatePrivateKey();
    const payer: TestAccount = { ...privateKeyToAccount(privateKey), privateKey };
    await parts.usdc.mint(payer.address, AMOUNT);
    payers.push(payer);
    payments.push(await first.sign({ account: payer, authorization: { validBefore } }));
  }

  return {
    first,
    gateways,
    /** Buys at once, and then has all jobs fail. */
    async buyAll(): Promise<void> {
      const [warmUp, ...others] = payments;
      // A client that asks for more verifications at once than it may have can be refused again and again.
      const inTurn = pLimit(MAX_PURCHASES);
      const buy = async (payment: Payment | undefined): Promise<void> => {
        const status = async () => payment && (await first.send(payment)).status;
        await expect.poll(status, { interval: 500, timeout: WAIT_MS }).toBe(202);
      };
      // The facilitator's first settlement alone: it reads its nonce then.
      await buy(warmUp);
      await Promise.all(others.map((payment) => inTurn(() => buy(payment))));
      failJobs();
    },
    /** Checks from outside that each buyer has his money back, and got it once. */
    async expectAllRefunded(): Promise<void> {
      const operator = createOperatorClient({ address: { url: first.jobgate.operatorUrl } });
      const sums = async () =>
        (await operator.getTotals({})).refunds.map(({ state, refunds }) => ({ state, refunds }));
      await expect
        .poll(sums, { timeout: WAIT_MS })
        .toEqual([{ state: RefundState.REFUNDED, refunds: BigInt(buyers) }]);
      expect(await operator.getTotals({})).toMatchObject({ balanced: true, kept: 0n });
      const transfers = await account.transfers();
      const paid = transfers.map(({ to, value }) => `${to} ${value}`);
      expect(paid.sort()).toEqual(payers.map(({ address }) => `${address.toLowerCase()} ${AMOUNT}`).sort());
      expect(new Set(transfers.map(({ transaction }) => transaction)).size).toBe(buyers);
      for (const { address } of payers) expect(await parts.usdc.balanceOf(address)).toBe(AMOUNT);
      // settled = delivered + kept + refunded + owed, to the last unit: nothing is left, delivered, kept or owed.
      expect(await parts.usdc.balanceOf(account.address)).toBe(0n);
      expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(BigInt(buyers) * AMOUNT);
    },
    async stop() {
      await Promise.all(gateways.map((gateway) => gateway.stop()));
      await parts.stop();
    },
  };
}

describe.each(["SQLite", "two replicas on Postgres"])(
  "Each buyer of a failed job is paid back once, on %s,",
  (store) => {
    const on = () => (store === "SQLite" ? {} : { on: postgres });

    // Those of transactions are the matter of settler-crash.full.test.ts as well, also with two replicas.
    const own = howMany(
      REFUND_POINTS.filter((at) => at.startsWith("refunds/")),
      [...REFUND_POINTS],
    );
    const points = store === "SQLite" ? REFUND_POINTS : own;
    // A replica that gets no CPU for 10 s loses its right to send, and is not killed then: those take turns.
    const limit = pLimit(store === "SQLite" ? points.length : 1);

    it("although jobgate is killed at each step of a refund", { timeout }, () =>
      atOnce(
        points.flatMap((crashAt) => Array<typeof crashAt>(ROUNDS).fill(crashAt)),
        (crashAt) =>
          limit(async () => {
            const site = await startSite({ buyers: BUYERS_IN_MATRIX, crashAt, ...on() });
            try {
              await site.buyAll();
              expect(await site.first.jobgate.exited).toEqual({ code: null, signal: "SIGKILL" });
              await site.first.startAgain({ asProcess: true });
              await site.expectAllRefunded();
            } finally {
              await site.stop();
            }
          }),
      ),
    );

    it(`although there are ${BUYERS} of them at once and jobgate is killed in between`, {
      timeout,
    }, async () => {
      const site = await startSite({ buyers: BUYERS, ...on() });
      try {
        await site.buyAll();
        const operator = () => createOperatorClient({ address: { url: site.first.jobgate.operatorUrl } });
        for (const part of [0.1, 0.4, 0.7]) {
          await expect
            .poll(
              async () => {
                const { refunds } = await operator()
                  .getTotals({})
                  .catch(() => ({ refunds: [] }));
                const begun = refunds.filter(
                  ({ state }) => state === RefundState.SENDING || state === RefundState.REFUNDED,
                );
                return begun.reduce((sum, { refunds }) => sum + Number(refunds), 0);
              },
              { interval: 5, timeout: WAIT_MS },
            )
            .toBeGreaterThanOrEqual(part * BUYERS);
          await site.first.restart({ signal: "SIGKILL", asProcess: true });
        }
        await site.buyAll();
        await site.expectAllRefunded();
      } finally {
        await site.stop();
      }
    });
  },
);
