import type { Address } from "@solana/kit";
import { expect, onTestFinished } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { type Refund, RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { solanaAccount, solanaKeyBytes } from "../helpers/solana-cluster.ts";
import { testFolder } from "../helpers/test-folder.ts";
import { type SolanaParts, startSolanaShop } from "../parts/solana/harness.ts";
import type { REFUND_POINTS } from "./refund-account.ts";

/** Number of the account that refunds are sent from. */
const REFUND_ACCOUNT = 5;
const SOL = 1_000_000_000n;

/** An account that pays back what jobs cost that fail. */
export interface SolanaRefundAccount {
  readonly address: Address;
  /** Edits the configuration of a shop: its jobs are refunded when they fail. */
  edit(config: string): string;
  /** Signatures of the transactions that the account has paid for, and that moved something. */
  sent(): string[];
}

export async function solanaRefundAccount(
  { cluster, mint }: SolanaParts,
  { tokens = 1_000_000n, lamports = SOL, number = REFUND_ACCOUNT } = {},
): Promise<SolanaRefundAccount> {
  const { address: account } = await solanaAccount(number);
  const key = `[${[...(await solanaKeyBytes(number))].join(",")}]`;
  if (lamports > 0n) cluster.airdrop(account, lamports);
  await cluster.fund(account, mint, tokens);
  return {
    address: account,
    edit: (config) =>
      `${config.replaceAll('price = "$0.01"', 'price = "$0.01"\non_failure = "refund"')}
[x402.refunds]
accounts = { solana-devnet = "${key}" }
`,
    sent: () =>
      cluster.landed.flatMap(({ accounts, err, signature }) =>
        accounts[0] === account && err === null ? [signature] : [],
      ),
  };
}

/** Returns the only refund that a jobgate knows. */
export async function onlyRefund(jobgate: Pick<Jobgate, "operatorUrl">): Promise<Refund | undefined> {
  const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
  return (await operator.listRefunds({})).refunds[0];
}

/** Kills a jobgate at a point of a refund, and checks that the buyer is paid back once after its restart. */
export async function expectRefundedOnceThrough(
  parts: SolanaParts,
  point: (typeof REFUND_POINTS)[number],
): Promise<void> {
  const { cluster, mint, payer } = parts;
  const account = await solanaRefundAccount(parts);
  const folder = await testFolder();
  let config = "";
  let life: Jobgate | undefined;
  const shop = await startSolanaShop(parts, {
    handle: () => Promise.reject(new Fail("no good")),
    async start(options) {
      config = account.edit(options.config);
      life = await startJobgate({ config, folder, env: { JOBGATE_CRASH_AT: point } });
      const at = (name: string | symbol) => Reflect.get(life as Jobgate, name);
      return new Proxy({} as Jobgate, { get: (_, name) => at(name) });
    },
  });
  onTestFinished(shop.stop);
  const before = await cluster.balanceOf(payer, mint);
  const [sent, landed] = [account.sent().length, cluster.landed.length];
  expect(await shop.send(await shop.sign())).toMatchObject({ status: 202 });
  expect(await life?.exited).toMatchObject({ signal: "SIGKILL" });
  const hasLanded = point === "transactions/after-broadcast" || point === "refunds/before-end";
  expect(account.sent().length - sent).toBe(hasLanded ? 1 : 0);

  life = await startJobgate({ config, folder });
  const restarted = life;
  await expect.poll(() => onlyRefund(restarted)).toMatchObject({ state: RefundState.REFUNDED, attempt: 1 });
  expect((await onlyRefund(restarted))?.transaction).toBe(account.sent().at(-1));
  expect(account.sent().length - sent).toBe(1);
  expect(cluster.landed.length - landed).toBe(2);
  expect(await cluster.balanceOf(payer, mint)).toBe(before);
  const operator = createOperatorClient({ address: { url: restarted.operatorUrl } });
  expect(await operator.getTotals({})).toMatchObject({ balanced: true, kept: 0n });
}
