import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { watchBooks } from "./books.ts";
import { expectBalance } from "./ledger.ts";
import type { Command } from "./model-commands.ts";
import { atSettling, FACILITATOR_FAULTS, RPC_FAULTS } from "./model-faults.ts";
import { ModelRefunds } from "./model-refunds.ts";
import type { ModelRunner } from "./model-runner.ts";
import { ModelUse } from "./model-use.ts";
import type { Answer, PaidGateway, Payment, SetUp } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts } from "./paid-parts.ts";
import type { RefundAccount } from "./refund-account.ts";

/** Job that one payment was used for, and the answers to it. */
interface Bought {
  readonly payment: Payment;
  readonly body: string;
  readonly job: 0 | 1;
  /** Answers to the very same request; undefined for one that was lost. */
  readonly answers: (Answer | undefined)[];
}

/** Runs all `commands`, makes all parts healthy again, and checks the promises about money. */
export async function runCommands(options: {
  readonly parts: PaidParts;
  readonly gateway: PaidGateway;
  readonly setUp: SetUp;
  readonly account: RefundAccount | undefined;
  readonly runner: ModelRunner;
  /** Each command and each look is followed by a block. */
  readonly minesAlways: boolean;
  readonly commands: readonly Command[];
  /** Unique to this run. */
  readonly name: string;
}): Promise<void> {
  const { parts, gateway, runner, commands, setUp, name, minesAlways } = options;
  const { failing } = runner;
  const bought: Bought[] = [];
  const inHand = new Set<Promise<void>>();
  const refunds = new ModelRefunds(options);
  const use = setUp === "rpc_url" ? new ModelUse({ parts, gateway, name, track }) : undefined;
  runner.isEnd = false;
  await refunds.begin();
  await use?.begin();
  const balances = () =>
    Promise.all([accounts.payTo, accounts.payer].map(({ address }) => parts.usdc.balanceOf(address)));
  const [receivedBefore = 0n, ownedBefore = 0n] = await balances();
  const expectBooks = setUp === "rpc_url" ? await watchBooks(options) : undefined;

  function track(request: Promise<void>): Promise<void> {
    const done = request.finally(() => inHand.delete(done));
    inHand.add(done);
    return done;
  }

  function send({ payment, body, job, answers }: Bought): Promise<void> {
    return track(
      gateway.send(payment, { body, job }).then(
        (answer) => void answers.push(answer),
        () => void answers.push(undefined),
      ),
    );
  }

  async function mine(): Promise<void> {
    if (minesAlways) await parts.anvil.client.mine({ blocks: 1 });
  }

  async function pay({
    times,
    wait,
    job,
    fails,
    settling,
  }: Extract<Command, { kind: "pay" }>): Promise<void> {
    const body = `${name} payment ${bought.length}`;
    const payment = await gateway.sign({ job });
    const purchase: Bought = { payment, body, job, answers: [] };
    bought.push(purchase);
    if (fails) failing.add(body);
    const { asked, meanwhile } = atSettling(gateway, payment.signed.authorization.nonce, settling);
    const sends = Promise.all(Array.from({ length: times }, () => send(purchase)));
    // A payment that is refused before is never settled.
    if (meanwhile !== undefined) await Promise.race([asked, sends]);
    if (meanwhile === "kill") await gateway.restart({ signal: "SIGKILL", asProcess: true });
    else if (meanwhile !== undefined) await interfere(purchase, meanwhile);
    if (wait) await sends;
  }

  async function resend(purchase: Bought, as: "same" | "other body" | "other job"): Promise<void> {
    if (as === "same") return send(purchase);
    // Only a known payment is bound to its first job and body.
    if ((await gateway.journal.paymentOf(purchase.payment.signed)) === undefined) return;
    const other =
      as === "other body"
        ? { body: "other", job: purchase.job }
        : { body: purchase.body, job: 1 - purchase.job };
    expect(await gateway.send(purchase.payment, other)).toMatchObject({ status: 409, charged: false });
  }

  /** Someone else uses the nonce, if it is still unused: of a payment that jobgate has journalled. */
  async function interfere(purchase: Bought, kind: "front-run" | "cancel"): Promise<void> {
    const { signed } = purchase.payment;
    if ((await gateway.journal.paymentOf(signed)) === undefined) return;
    const order = { beforePending: true };
    const cancelling = kind === "cancel";
    try {
      if (cancelling) await parts.usdc.cancelAuthorization(accounts.payer, signed.authorization.nonce, order);
      else await parts.usdc.transferWithAuthorization(signed, accounts.stranger, order);
    } catch (error) {
      // Used, cancelled or expired already.
      if (!String(error).includes("revert")) throw error;
    }
  }

  async function perform(command: Command): Promise<void> {
    const named = "payment" in command ? bought[command.payment % Math.max(1, bought.length)] : undefined;
    switch (command.kind) {
      case "pay":
        return pay(command);
      case "resend":
        return named && resend(named, command.as);
      case "front-run":
      case "cancel":
        return named && interfere(named, command.kind);
      case "refund":
      case "retry": {
        const callId = named && (await gateway.journal.paymentOf(named.payment.signed))?.callId;
        if (named === undefined || callId === undefined) return;
        if (command.kind === "refund") return refunds.decide(callId, command.as);
        if (command.fails) failing.add(named.body);
        else failing.delete(named.body);
        return refunds.retry(callId);
      }
      case "use":
        return use?.buy(command, failing);
      case "use again":
        return use?.again(command);
      case "retry use":
        return use?.retry(command, failing);
      case "payer":
        return use?.payer(command);
      case "facilitator": {
        const { path, fault } = command;
        return gateway.facilitatorProxy.add({ path, times: 1, fault: FACILITATOR_FAULTS[fault] });
      }
      case "rpc":
        return gateway.rpcProxy.add({ times: command.times, fault: RPC_FAULTS[command.fault] });
      case "jobgate":
        return gateway.restart({ signal: command.signal, asProcess: true });
      case "runner":
        return gateway.replaceRunner();
      case "mining":
        await parts.anvil.client.setAutomine(command.on);
        if (command.on) await parts.anvil.client.mine({ blocks: 1 });
        return;
      case "reorganisation":
        return void (await parts.anvil.client.request({ method: "anvil_reorg", params: [1, []] } as never));
      case "time":
        return parts.passTime(command.seconds);
      case "pause":
        return void (await sleep(command.ms));
    }
  }

  async function heal(): Promise<void> {
    runner.isEnd = true;
    gateway.facilitatorProxy.clear();
    gateway.rpcProxy.clear();
    await parts.anvil.client.setAutomine(true);
    await parts.anvil.client.mine({ blocks: 1 });
    await Promise.all(inHand);
    // Authorizations that are still unused have expired.
    await parts.passTime(301);
  }

  for (const command of commands) {
    await perform(command);
    await mine();
  }
  await heal();
  await expect
    .poll(
      async () => {
        await mine();
        const { payments, paidCalls } = await gateway.journal.totals();
        return {
          undecided: setUp === "rpc_url" ? payments.intent + payments.settling : 0,
          open: paidCalls.ready + paidCalls.leased,
        };
      },
      // The reconciler waits up to 30 s between two looks.
      { timeout: 120_000, interval: 50 },
    )
    .toEqual({ undecided: 0, open: 0 });

  await refunds.end(bought.length, { mine });

  let paid = 0n;
  for (const purchase of bought) if (await expectPromisesKept(options, purchase)) paid += AMOUNT;
  const records = await Promise.all(bought.map(({ payment }) => gateway.journal.paymentOf(payment.signed)));
  const settled = records.flatMap((record) => (record?.state === "settled" ? record.callId : []));
  const refunded = await refunds.expectLaw(settled);
  const used = (await use?.expectLaw()) ?? 0n;
  expect(await balances()).toEqual([receivedBefore + paid + used, ownedBefore - paid + refunded]);
  await expectBalance(gateway);
  if (setUp === "rpc_url") expect((await gateway.journal.totals()).payments.unresolved).toBe(0);
  await expectBooks?.();
}

/** @returns whether the payment paid, by the chain */
async function expectPromisesKept(
  { parts, gateway, setUp }: { parts: PaidParts; gateway: PaidGateway; setUp: SetUp },
  { payment, body, answers }: Bought,
): Promise<boolean> {
  const { from, nonce } = payment.signed.authorization;
  const isUsed = await parts.usdc.authorizationState(from, nonce);
  const paid = isUsed && !(await parts.usdc.isCancelled(from, nonce));
  const record = await gateway.journal.paymentOf(payment.signed);
  const deliveries = gateway.jobsWith(body);
  const callIds = new Set(deliveries.map(({ callId }) => Number(callId)));
  const attempts = deliveries.map(({ attempt }) => attempt);
  const facts = {
    body,
    paid,
    state: record?.state,
    answers: answers.map((answer) => answer?.code ?? answer?.status),
  };

  // Never a settled payment without its job, never a job without its payment.
  const decided = setUp === "rpc_url" || record?.state === "settled";
  if (decided)
    expect({ ...facts, settled: record?.state === "settled" }).toEqual({ ...facts, settled: paid });
  expect({ ...facts, jobs: [...callIds] }).toEqual({
    ...facts,
    jobs: record?.state === "settled" ? [record.callId] : [],
  });
  // Never two jobs for one payment: a redelivery has a higher attempt.
  expect({ ...facts, attempts }).toEqual({
    ...facts,
    attempts: [...new Set(attempts)].sort((left, right) => left - right),
  });
  // Never a charge for a refused request.
  const refusedEachTime = answers.every((answer) => answer?.charged === false);
  expect({ ...facts, chargedThoughRefused: refusedEachTime && paid }).toEqual({
    ...facts,
    chargedThoughRefused: false,
  });
  // The outcome is the same in every answer.
  for (const answer of answers) {
    if (answer?.status === 202)
      expect({ ...facts, callId: answer.call_id }).toEqual({ ...facts, callId: record?.callId });
    if (answer?.code === "settlement_failed") expect({ ...facts }).toEqual({ ...facts, paid: false });
  }
  return paid;
}
