import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inspectStore } from "../../src/open-store.ts";
import { isBalanced } from "../../src/store/rules/payments.ts";
import { runHere } from "../commands/operator-commands.ts";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { openJournal } from "./journal.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const PAYMENTS = 8;

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url", asProcess: true }));

test("A copy made under load is restored after a kill: the chain decides what it has, and shows each payment that it lacks", async () => {
  const signAll = (count: number) => Promise.all(Array.from({ length: count }, () => gateway.sign()));
  const sendAll = (payments: readonly Awaited<ReturnType<typeof gateway.sign>>[]) =>
    Promise.all(payments.map((payment) => gateway.sendUntilDecided(payment)));
  const received = () => parts.usdc.balanceOf(accounts.payTo.address);
  const receivedBefore = await received();
  const path = join(gateway.jobgate.folder, "jobgate.db");
  const copy = `${path}.copy`;

  const before = await signAll(PAYMENTS);
  // The facilitator's first settlement alone: it reads its nonce then.
  const firstAnswers = [...(await sendAll(before.slice(0, 1))), ...(await sendAll(before.slice(1)))];
  const [held] = await signAll(1);
  if (held === undefined) throw new Error("expected a payment");
  const during = await signAll(PAYMENTS);
  const copiedAt = new Date(Number((await parts.anvil.client.getBlock()).timestamp) * 1_000);
  const backedUp = gateway.duringSettle(async () => {
    const load = sendAll(during);
    const inspection = await inspectStore({ url: `sqlite:${path}` });
    await inspection.backup(copy).finally(() => inspection.close());
    return load;
  }, held);
  const settling = gateway.sendUntilDecided(held, { body: "held" });
  const loaded = await backedUp;
  const after = await signAll(PAYMENTS);
  const answers = [...firstAnswers, await settling, ...loaded, ...(await sendAll(after))];
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));

  gateway.jobgate.kill("SIGKILL");
  await gateway.jobgate.exited;
  await rename(copy, path);
  await gateway.startAgain({ asProcess: true });

  // The copy has it as undecided: the reconciler settles it from the chain, and its job is delivered again.
  await gateway.waitForJobs("held", 2);
  const again = [...(await sendAll(before)), await gateway.sendUntilDecided(held, { body: "held" })];
  expect(again.map(({ call_id, access_token }) => [call_id, access_token])).toEqual(
    answers.slice(0, PAYMENTS + 1).map(({ call_id, access_token }) => [call_id, access_token]),
  );
  const others = await Promise.all([...during, ...after].map((payment) => gateway.sendUntilDecided(payment)));
  const lost = others.filter(({ status }) => status !== 202);
  expect(lost.length).toBeGreaterThanOrEqual(PAYMENTS);
  for (const answer of lost)
    expect(answer).toMatchObject({ status: 409, code: "authorization_used", charged: "unknown" });

  const since = ["--since", copiedAt.toISOString(), "--target", gateway.jobgate.operatorUrl];
  const config = join(gateway.jobgate.folder, "jobgate.toml");
  const { code, stdout } = await runHere("payments", "missing", "-c", config, ...since, "--json");
  expect(code).toBe(0);
  const missing = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { transaction: string });
  // The answers before the restore: `others` are in the order of the payments.
  const sold = [...loaded, ...answers.slice(-PAYMENTS)];
  const unknown = sold.filter((_, i) => others[i]?.status !== 202);
  expect(missing.map(({ transaction }) => transaction).toSorted()).toEqual(
    unknown.map(({ settlement }) => settlement?.transaction).toSorted(),
  );

  const journal = openJournal(path);
  const totals = await journal.totals();
  await journal.close();
  expect(isBalanced(totals)).toBe(true);
  expect(totals.payments).toMatchObject({ intent: 0, settled: answers.length - lost.length });
  const inspection = await inspectStore({ url: `sqlite:${path}` });
  expect(await inspection.check().finally(() => inspection.close())).toEqual([]);
  expect((await received()) - receivedBefore).toBe(AMOUNT * BigInt(answers.length));
});
