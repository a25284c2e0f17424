import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import type { Permit2Payment } from "../helpers/clients.ts";
import { approvePermit2, invalidatePermit2Nonce } from "../helpers/permit2.ts";
import { askForCall, authorize, newPayer } from "./metered.ts";
import type { Command, PayerDeed } from "./model-commands.ts";
import { atSettling } from "./model-faults.ts";
import { operatorOf } from "./model-refunds.ts";
import { type Charging, mayCharge } from "./model-runner.ts";
import { withPermit2 } from "./paid-config.ts";
import type { Answer, PaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, transfersFrom } from "./paid-parts.ts";

/** Job that is metered. */
const JOB = 2;
/** Time before an authorization's end at which a job that runs is charged. The facilitator needs more than 6 s. */
const MARGIN_SECS = 10;
/** Validity of an authorization that ends during a run. */
const SHORT_SECS = MARGIN_SECS + 4;
/** Time in which a job that is settled at all is settled, on a machine that is not busy. */
const SETTLES_WITHIN_MS = 300;
/** Ceilings that a payer can pay at the beginning. */
const CEILINGS = 3n;
/** Outbids what waits on a chain that does not mine by itself. */
const AT_ONCE = { beforePending: true };

/** Purchase of a metered job. */
interface Used {
  readonly payment: Permit2Payment;
  readonly payer: TestAccount;
  readonly body: string;
  readonly charging: Charging;
  readonly isShort: boolean;
  /** Answers to the very same request; undefined for one that was lost. */
  readonly answers: (Answer | undefined)[];
}

/** Sells job 2 metered. */
export function sellMetered(config: string): string {
  return `${withPermit2(config).replace("[x402]\n", `[x402]\nsettle_margin_secs = ${MARGIN_SECS}\n`)}
2 = "1000000000000000"
[[jobs]]
job_index = ${JOB}
mode = "public_paid"
charge = "used"
min_charge = "10%"
max_run_secs = 2
`;
}

/** metered payments of one run, and what must hold of them in the end. */
export class ModelUse {
  readonly #parts: PaidParts;
  readonly #gateway: PaidGateway;
  readonly #name: string;
  readonly #track: (request: Promise<void>) => Promise<void>;
  readonly #used: Used[] = [];
  /** Bodies of those that the operator had done again. */
  readonly #retried = new Set<string>();
  #payers: readonly TestAccount[] = [];
  #before: Readonly<Record<string, number>> = {};

  /** @param options `track` notes a request that the run waits for in the end */
  constructor(options: {
    readonly parts: PaidParts;
    readonly gateway: PaidGateway;
    readonly name: string;
    readonly track: (request: Promise<void>) => Promise<void>;
  }) {
    this.#parts = options.parts;
    this.#gateway = options.gateway;
    this.#name = options.name;
    this.#track = options.track;
  }

  async begin(): Promise<void> {
    this.#payers = [await newPayer(this.#parts, CEILINGS), await newPayer(this.#parts, CEILINGS)];
    this.#before = (await this.#gateway.journal.totals()).deferred;
  }

  async buy(command: Extract<Command, { kind: "use" }>, failing: Set<string>): Promise<void> {
    const { times, wait, charging, fails, settling, isShort } = command;
    const payer = this.#payers[command.payer] as TestAccount;
    const aheadSecs = Math.max(0, (await this.#parts.chainTimeSecs()) - Math.floor(Date.now() / 1000));
    const secs = aheadSecs + (isShort ? SHORT_SECS : 300);
    const payment = await authorize(this.#gateway, { job: JOB, account: payer, secs });
    const body = `${charging}: ${this.#name} use ${this.#used.length}`;
    const used: Used = { payment, payer, body, charging, isShort, answers: [] };
    this.#used.push(used);
    if (fails) failing.add(body);
    const { asked, meanwhile } = atSettling(this.#gateway, payment.permit.nonce, settling);
    const sends = Promise.all(Array.from({ length: times }, () => this.#send(used)));
    // A job that is refused, fails, or runs for long is not settled now.
    if (meanwhile !== undefined) await Promise.race([asked, sleep(SETTLES_WITHIN_MS)]);
    if (meanwhile === "kill") await this.#gateway.restart({ signal: "SIGKILL", asProcess: true });
    else if (meanwhile === "cancel") await this.#cancel(used);
    else if (meanwhile !== undefined) await this.#payerDoes(payer, meanwhile);
    if (wait) await sends;
  }

  async payer({ payer, as }: Extract<Command, { kind: "payer" }>): Promise<void> {
    await this.#payerDoes(this.#payers[payer] as TestAccount, as);
  }

  /** Does something with an earlier purchase. */
  async again({ payment, as }: Extract<Command, { kind: "use again" }>): Promise<void> {
    const used = this.#used[payment % Math.max(1, this.#used.length)];
    if (used === undefined) return;
    if (as === "same") return this.#send(used);
    if (as === "result") return this.#expectNoFreeResult(used);
    if ((await this.#recordOf(used)) === undefined) return;
    const other = await this.#gateway.send(used.payment, { body: "other", job: JOB });
    expect(other).toMatchObject({ status: 409, charged: false });
  }

  /** Has the operator retry the dead letter of a purchase, if it is one. */
  async retry({ payment }: Extract<Command, { kind: "retry use" }>, failing: Set<string>): Promise<void> {
    const used = this.#used[payment % Math.max(1, this.#used.length)];
    if (used === undefined) return;
    const record = await this.#recordOf(used);
    if (record === undefined) return;
    failing.delete(used.body);
    this.#retried.add(used.body);
    await operatorOf(this.#gateway).retryDeadLetters({ callIds: [BigInt(record.callId)] });
  }

  /**
   * Checks that `authorised = running + settling + settled + released + failed + unresolved` holds of this run's payments
   * and that none is undecided, payment by payment and by the chain's transfers.
   * @returns the units that the recipient got
   */
  async expectLaw(): Promise<bigint> {
    const ends = await Promise.all(this.#used.map((used) => this.#expectEnd(used)));
    const counts: Record<string, number> = {};
    for (const { state } of ends) if (state !== undefined) counts[state] = (counts[state] ?? 0) + 1;
    const { deferred } = await this.#gateway.journal.totals();
    const added = Object.entries(deferred).map(
      ([state, n]) => [state, n - (this.#before[state] ?? 0)] as const,
    );
    expect(Object.fromEntries(added.filter(([, count]) => count !== 0))).toEqual(counts);

    const payTo = accounts.payTo.address.toLowerCase();
    const sent = await transfersFrom(
      this.#parts,
      this.#payers.map(({ address }) => address),
    );
    const received = sent
      .filter(({ to }) => to === payTo)
      .map(({ value, transaction }) => ({ value, transaction }));
    const settled = ends.flatMap(({ state, value, transaction }) =>
      state === "settled" ? { value, transaction } : [],
    );
    const byTransaction = (a: { transaction: string }, b: { transaction: string }) =>
      a.transaction < b.transaction ? -1 : 1;
    expect(settled.sort(byTransaction)).toEqual(received.sort(byTransaction));
    return received.reduce((sum, { value }) => sum + value, 0n);
  }

  /** Checks one payment. @returns how it ended; without a state if it was never authorized */
  async #expectEnd(used: Used): Promise<{ state: string | undefined; value: bigint; transaction: string }> {
    const { body, charging, isShort, answers } = used;
    const record = await this.#recordOf(used);
    const deliveries = this.#gateway.jobsWith(body);
    const attempts = deliveries.map(({ attempt }) => attempt);
    const state = record?.state;
    const facts = { body, state, answers: answers.map((answer) => answer?.code ?? answer?.status) };
    expect([undefined, "settled", "released", "failed"], JSON.stringify(facts)).toContain(state);
    // Never a job without its payment, never two jobs for one.
    const callIds = [...new Set(deliveries.map(({ callId }) => Number(callId)))];
    expect({ ...facts, other: callIds.filter((callId) => callId !== record?.callId) }).toEqual({
      ...facts,
      other: [],
    });
    expect({ ...facts, attempts }).toEqual({
      ...facts,
      attempts: [...new Set(attempts)].sort((a, b) => a - b),
    });
    for (const answer of answers) {
      if (answer?.status === 202)
        expect({ ...facts, callId: answer.call_id }).toEqual({ ...facts, callId: record?.callId });
      // Never a charge for a refused request.
      if (answer?.charged === false && answers.every((other) => other?.charged === false))
        expect({ ...facts, state }).toEqual({ ...facts, state: undefined });
    }
    if (record === undefined) return { state, value: 0n, transaction: "" };

    const value = BigInt(record.amount);
    const call = await this.#gateway.journal.callState(record.callId);
    const ended = { ...facts, value, call };
    // Never charged but what the runner said, or it reported when the authorization ended.
    if (state !== "released")
      expect({ ...ended, isSaid: mayCharge(charging, isShort, value) }).toEqual({ ...ended, isSaid: true });
    else expect(ended).toEqual({ ...ended, value: 0n });
    // Nothing is given away, unless the runner or the operator does.
    const isGift = charging === "nothing" || this.#retried.has(body);
    if (state === "failed" || (state === "released" && !isGift))
      // Undefined: no longer kept.
      expect(["failed", "expired", undefined], JSON.stringify(facts)).toContain(call);
    await this.#expectNoFreeResult(used);
    const { transaction = "" } = JSON.parse(record.settlement ?? "{}") as { transaction?: string };
    return { state, value, transaction };
  }

  /** A result is handed out only when its charge is certain, or nothing is charged. */
  async #expectNoFreeResult(used: Used): Promise<void> {
    const bought = used.answers.find((answer) => answer?.status === 202);
    if (bought === undefined) return;
    const { result } = await askForCall(this.#gateway, bought);
    const state = (await this.#recordOf(used))?.state;
    if (result.status === 200) expect(["settled", "released"]).toContain(state);
    if (result.status === 402) expect(state).toBe("failed");
  }

  #send(used: Used): Promise<void> {
    const { payment, body, answers } = used;
    return this.#track(
      this.#gateway.send(payment, { body, job: JOB }).then(
        (answer) => void answers.push(answer),
        () => void answers.push(undefined),
      ),
    );
  }

  async #recordOf({ payment }: Used) {
    return (await this.#gateway.journal.payments()).find(({ key }) => key.nonce === payment.permit.nonce);
  }

  async #cancel(used: Used): Promise<void> {
    if ((await this.#recordOf(used)) === undefined) return;
    await invalidatePermit2Nonce(this.#parts.anvil, used.payer, used.payment.permit.nonce, AT_ONCE);
  }

  async #payerDoes(account: TestAccount, deed: PayerDeed): Promise<void> {
    const { anvil, usdc } = this.#parts;
    const approve = (amount?: bigint) =>
      approvePermit2({
        anvil,
        token: usdc.address,
        account,
        ...AT_ONCE,
        ...(amount !== undefined && { amount }),
      });
    if (deed === "revoke") return approve(0n);
    if (deed === "drain") {
      const balance = await usdc.balanceOf(account.address);
      await usdc.transfer(account, accounts.stranger.address, balance, AT_ONCE);
      return;
    }
    await usdc.mint(account.address, CEILINGS * AMOUNT, AT_ONCE);
    await approve();
  }
}
