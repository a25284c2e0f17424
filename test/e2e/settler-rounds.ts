import { join } from "node:path";
import { type Hex, parseGwei } from "viem";
import { expect } from "vitest";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { accounts } from "../helpers/accounts.ts";
import type { Exit } from "../helpers/jobgate-process.ts";
import type { Postgres } from "../helpers/postgres.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { expectBalance } from "./ledger.ts";
import { localSettler } from "./local-facilitator.ts";
import { type PaidGateway, type Payment, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";
import { readChain } from "./storm-audit.ts";

/** Point at which the jobgate that settles is killed with SIGKILL. */
export type SettlerCrash =
  | "transactions/before-journal"
  | "transactions/after-journal"
  | "transactions/after-broadcast"
  | "transactions/after-replacement";

/** Payments under way in each round. */
const PAYMENTS = 3;
const BASE_FEE = parseGwei("1");
/** More than what is signed at {@link BASE_FEE} pays. */
const DEAR_BASE_FEE = parseGwei("10");
/** Another replica takes a network when the owner's right to send has ended. */
const DECIDED_WITHIN_MS = 300_000;
/** Lifetime of the payments: longer than a round. */
const VALID_SECS = 1_200;
const TRANSACTIONS = "SELECT CAST(nonce AS int) AS nonce, hash, earlier_hashes FROM settler_transactions";

interface TransactionRow {
  readonly nonce: number | null;
  readonly hash: string | null;
  readonly earlier_hashes: string;
}

/** One jobgate on a SQLite file, or two on Postgres, that settle payments themselves with one key. */
export interface SettlerSite {
  /** Kills the jobgate that sends while it settles payments, starts it again, and waits until all are settled. */
  crash(at: SettlerCrash): Promise<void>;
  /** Freezes the replica that sends until the other has settled the payments, and lets it go on. */
  freeze(at: SettlerCrash): Promise<void>;
  /** Compares chain, journal and the runner's jobs, over all rounds. */
  expectAllAccounted(): Promise<void>;
  stop(): Promise<void>;
}

export async function startSettlerSite(postgres?: Postgres): Promise<SettlerSite> {
  const parts = await startPaidParts();
  const settler = await localSettler({ anvil: parts.anvil });
  const [account] = settler.addresses as [Hex];
  const storeUrl = await postgres?.createDatabase();
  const replicas = await Promise.all(
    Array.from({ length: postgres === undefined ? 1 : 2 }, () =>
      startPaidGateway({
        parts,
        setUp: "rpc_url",
        leaseSecs: 1,
        asProcess: true,
        ...(storeUrl === undefined ? {} : { storeUrl }),
        // Sends through the proxy of its tokens' RPC.
        edit: (config) => {
          const proxyUrl = /^rpc_url = "(.*)"$/m.exec(config)?.[1] ?? "";
          const own = settler.edit(config).replace(parts.anvil.rpcUrl, proxyUrl);
          // On a busy machine a short lease may run out several times.
          return own.replace("[runner]", "[runner]\nmax_attempts = 100");
        },
      }),
    ),
  );
  const sold: { readonly payment: Payment; readonly body: string }[] = [];
  let rounds = 0;

  async function transactions(): Promise<TransactionRow[]> {
    if (postgres !== undefined && storeUrl !== undefined)
      return postgres.query(storeUrl, TRANSACTIONS.replace("FROM ", "FROM jobgate."));
    const database = openDriver(join((replicas[0] as PaidGateway).jobgate.folder, "jobgate.db"));
    try {
      return database.prepare<TransactionRow>(TRANSACTIONS).all([]);
    } finally {
      database.close();
    }
  }

  /** Makes one replica, in turn, the one that sends. `other` is the same one where there is only one. */
  async function ownerOfRound(env: Readonly<Record<string, string>>) {
    const owner = replicas[rounds++ % replicas.length] as PaidGateway;
    const other = replicas.find((replica) => replica !== owner) ?? owner;
    if (other === owner) {
      await owner.restart({ asProcess: true, env });
      return { owner, other };
    }
    for (const { jobgate } of replicas) {
      jobgate.kill("SIGTERM");
      await jobgate.exited;
    }
    const before = await holder();
    await owner.startAgain({ asProcess: true, env });
    // One that was killed, and that nobody had to replace, holds the network until its right to send has ended.
    await expect.poll(holder, { timeout: DECIDED_WITHIN_MS }).not.toBe(before);
    await other.startAgain({ asProcess: true });
    return { owner, other };
  }

  /** Returns who may send, or was the last one. */
  async function holder(): Promise<string | undefined> {
    if (postgres === undefined || storeUrl === undefined) return undefined;
    const rows = await postgres.query<{ owner: string }>(
      storeUrl,
      "SELECT owner FROM jobgate.locks WHERE name LIKE 'eip155:%'",
    );
    return rows[0]?.owner;
  }

  async function signPayments(gateway: PaidGateway, count = PAYMENTS) {
    const validBefore = String((await parts.chainTimeSecs()) + VALID_SECS);
    const sign = () => gateway.sign({ authorization: { validBefore } });
    const payments = await Promise.all(Array.from({ length: count }, sign));
    return payments.map((payment) => {
      const sale = { payment, body: `sale ${sold.length}` };
      sold.push(sale);
      return sale;
    });
  }

  /** Sends again what is answered 503. A jobgate that dies meanwhile answers nothing. */
  const send = (gateway: PaidGateway, { payment, body }: (typeof sold)[number]) =>
    gateway.sendUntilDecided(payment, { body, timeoutMs: DECIDED_WITHIN_MS }).catch(() => undefined);

  /** Sells something that has to be signed while earlier transactions wait to be mined. */
  async function sellUnmined(gateway: PaidGateway) {
    const [sale] = (await signPayments(gateway, 1)) as [(typeof sold)[number]];
    const answer = send(gateway, sale);
    const signed = async () => (await transactions()).filter(({ nonce }) => nonce !== null).length;
    await expect.poll(signed, { timeout: DECIDED_WITHIN_MS }).toBe(sold.length);
    return { sale, answer };
  }

  async function expectSettled(sales: typeof sold, gateway: PaidGateway): Promise<void> {
    const timeoutMs = DECIDED_WITHIN_MS;
    const answers = await Promise.all(
      sales.map(({ payment, body }) => gateway.sendUntilDecided(payment, { body, timeoutMs })),
    );
    expect(answers).toEqual(sales.map(() => expect.objectContaining(ACCEPTED)));
  }

  return {
    async crash(at) {
      const { client } = parts.anvil;
      const { owner, other } = await ownerOfRound({ JOBGATE_CRASH_AT: at });
      const isDear = at === "transactions/after-replacement";
      // In every second round the node forgets what was broadcast, or the first bytes stay too cheap.
      const isHarder = rounds % 2 === 0;
      const isUnmined = isDear || (isHarder && at === "transactions/after-broadcast");
      await nextBlock(parts, BASE_FEE);
      const sales = await signPayments(other);
      if (isUnmined) await client.setAutomine(false);
      // The other replica queues as well.
      const sends = sales.map((sale, i) => send(i === 0 ? owner : other, sale));
      if (isDear) await expectUnmined(parts, transactions);
      let exit: Exit | undefined;
      const ended = owner.jobgate.exited.then((how) => {
        exit = how;
      });
      const look = async () => {
        if (isDear) await nextBlock(parts, DEAR_BASE_FEE);
        return exit;
      };
      await expect
        .poll(look, { timeout: DECIDED_WITHIN_MS, interval: 500, message: `${at}, round ${rounds}` })
        .toEqual({ code: null, signal: "SIGKILL" });
      await ended;
      if (isUnmined && !isDear) await forgetBroadcasts(parts, await transactions());
      if (other === owner) await owner.startAgain({ asProcess: true });
      const late = isUnmined ? await sellUnmined(other) : undefined;
      if (late !== undefined) sales.push(late.sale);
      await client.setAutomine(true);
      await nextBlock(parts, isDear && isHarder ? DEAR_BASE_FEE : BASE_FEE);
      await expectSettled(sales, other);
      await Promise.all([...sends, late?.answer]);
      if (other !== owner) await owner.startAgain({ asProcess: true });
      await expectSettled(sales, owner);
    },

    async freeze(at) {
      const { owner, other } = await ownerOfRound({ JOBGATE_CRASH_AT: at, JOBGATE_CRASH_SIGNAL: "SIGSTOP" });
      const sales = await signPayments(other);
      const sends = sales.map((sale, i) => send(i === 0 ? owner : other, sale));
      await expectSettled(sales, other);
      owner.jobgate.kill("SIGCONT");
      await Promise.all(sends);
      // It sends nothing now, and queues what it is asked for.
      await expectSettled([...sales, ...(await signPayments(owner))], owner);
    },

    async expectAllAccounted() {
      const count = sold.length;
      const rows = await transactions();
      const nonces = rows.map(({ nonce }) => nonce ?? -1).toSorted((left, right) => left - right);
      expect(nonces).toEqual(Array.from({ length: count }, (_, nonce) => nonce));
      expect(await parts.anvil.client.getTransactionCount({ address: account })).toBe(count);
      for (const row of rows) expect(await minedHashes(parts, row)).toEqual([expect.anything()]);

      const { paid, transfers } = await readChain(parts);
      expect({ paid: paid.size, transfers }).toEqual({ paid: count, transfers: count });
      expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(BigInt(count) * AMOUNT);

      const [gateway] = replicas as [PaidGateway];
      await expect
        .poll(() => gateway.journal.totals(), { timeout: DECIDED_WITHIN_MS })
        .toMatchObject({
          payments: { settled: count, intent: 0, failed: 0, unresolved: 0 },
          paidCalls: { ready: 0, leased: 0, dead: 0 },
        });
      await expectBalance(gateway);
      const callIds = new Map(
        (await gateway.journal.payments()).map(({ key, callId }) => [key.nonce, callId]),
      );
      for (const { payment, body } of sold) {
        const deliveries = replicas.flatMap((replica) => replica.jobsWith(body));
        const callId = callIds.get(payment.signed.authorization.nonce);
        expect(new Set(deliveries.map((call) => Number(call.callId)))).toEqual(new Set([callId]));
        expect(new Set(deliveries.map(({ attempt }) => attempt)).size).toBe(deliveries.length);
      }
    },

    async stop() {
      await Promise.all(replicas.map((replica) => replica.stop()));
      await parts.stop();
    },
  };
}

async function nextBlock({ anvil }: PaidParts, baseFeePerGas: bigint): Promise<void> {
  await anvil.client.setNextBlockBaseFeePerGas({ baseFeePerGas });
  await anvil.client.mine({ blocks: 1 });
}

/** Waits until something is signed that is not mined. */
async function expectUnmined(
  parts: PaidParts,
  transactions: () => Promise<readonly TransactionRow[]>,
): Promise<void> {
  const unmined = async () => {
    const rows = (await transactions()).filter(({ hash }) => hash !== null);
    const mined = await Promise.all(rows.map((row) => minedHashes(parts, row)));
    return mined.filter((hashes) => hashes.length === 0).length;
  };
  await expect.poll(unmined, { timeout: DECIDED_WITHIN_MS }).toBeGreaterThan(0);
}

/** Lets the node lose what it has not mined. */
async function forgetBroadcasts({ anvil }: PaidParts, rows: readonly TransactionRow[]): Promise<void> {
  for (const { hash } of rows) {
    if (hash !== null) await anvil.client.dropTransaction({ hash: hash as Hex });
  }
}

/** Those hashes of a transaction under which it was mined and succeeded. */
async function minedHashes({ anvil }: PaidParts, row: TransactionRow): Promise<string[]> {
  const hashes = [row.hash, ...(JSON.parse(row.earlier_hashes) as string[])] as (Hex | null)[];
  const mined: string[] = [];
  for (const hash of hashes) {
    const receipt = hash && (await anvil.client.getTransactionReceipt({ hash }).catch(() => undefined));
    if (receipt && receipt.status === "success") mined.push(receipt.transactionHash);
  }
  return mined;
}
