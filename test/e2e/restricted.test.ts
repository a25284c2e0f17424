import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { runJobgate } from "../commands/run-jobgate.ts";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders, type SignedClaim, signClaim } from "../helpers/caller-claim.ts";
import { payingFetch } from "../helpers/clients.ts";
import { deployWallet } from "../helpers/wallets.ts";
import {
  type Answer,
  type Headers,
  JOB,
  NETWORK,
  type RestrictedGateway,
  startRestrictedGateway,
} from "./restricted-gateway.ts";

const PRICE = 100_000n;
const { caller, deployer: owner, payer, stranger } = accounts;

let gateway: RestrictedGateway;
beforeAll(async () => {
  gateway = await startRestrictedGateway();
  await gateway.tangle.permit(caller.address);
});
afterEach(() => {
  gateway.facilitatorProxy.clear();
  gateway.policyRpc.clear();
});
afterAll(() => gateway?.stop());

const sign = (options: Partial<Parameters<typeof signClaim>[0]> = {}) =>
  signClaim({ account: caller, serviceId: 0n, jobIndex: JOB.delegated, body: "work", ...options });

/** Pays anew and sends it with a claim. */
async function buy(claim: SignedClaim, body = "work"): Promise<Answer> {
  const { headers } = await gateway.pay();
  return gateway.send(JOB.delegated, { ...headers, ...claimHeaders(claim) }, body);
}

/** Does something, and says what came of it outside of the answer, and which counters went up. */
async function watch<Result>(act: () => Promise<Result>) {
  const [before, countersBefore] = await Promise.all([gateway.traces(), gateway.counters()]);
  const result = await act();
  const [after, counters] = await Promise.all([gateway.traces(), gateway.counters()]);
  return {
    result,
    settles: after.settles - before.settles,
    received: after.received - before.received,
    payments: after.payments - before.payments,
    nonces: after.nonces - before.nonces,
    counted: Object.fromEntries(
      Object.entries(counters)
        .map(([name, count]) => [name, count - (countersBefore[name] ?? 0)] as const)
        .filter(([name, count]) => count > 0 && name !== "payment_required"),
    ),
  };
}
const NOTHING = { settles: 0, received: 0n, payments: 0, nonces: 0 };
const ONE_PAYMENT = { settles: 1, received: PRICE, payments: 1 };

/** The official client: it asks, is told the price, pays and sends again, each time with these headers. */
async function buyOfficially(job: number, account: typeof payer, headers: Headers = {}) {
  const paying = payingFetch({
    account,
    network: NETWORK,
    fetch: (input, init) => {
      const request = new Request(input, init);
      for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
      return fetch(request);
    },
  });
  const response = await paying(gateway.urlOf(job), { method: "POST", body: "work" });
  return { httpStatus: response.status, ...((await response.json()) as object) } as Answer;
}

const callerOf = async (answer: Answer) => {
  for (let waited = 0; waited < 5_000; waited += 10) {
    const call = gateway.runner.calls.find(({ callId }) => Number(callId) === answer.call_id);
    if (call !== undefined) return call.metadata["X-CHAIN-CALLER"];
    await sleep(10);
  }
  throw new Error(`the JobCall of ${JSON.stringify(answer)} did not come`);
};

describe("A job whose payer is its caller", () => {
  test("runs for a permitted payer, and the runner is told who it is", async () => {
    const { result, ...traces } = await watch(() => buyOfficially(JOB.payerIsCaller, owner));
    expect(result).toMatchObject({ httpStatus: 202, service_id: 0, job_index: JOB.payerIsCaller });
    expect(traces).toEqual({ ...ONE_PAYMENT, nonces: 0, counted: { accepted: 1 } });
    expect(await callerOf(result)).toBe(owner.address.toLowerCase());
  });

  test("is refused to any other payer before any money moves, whatever the headers say", async () => {
    const { headers } = await gateway.pay({ job: JOB.payerIsCaller });
    const claimed = { ...headers, "X-CHAIN-CALLER": owner.address };
    const { result, ...traces } = await watch(() => gateway.send(JOB.payerIsCaller, claimed));
    expect(result).toMatchObject({
      httpStatus: 403,
      code: "caller_not_permitted",
      charged: false,
      retryable: false,
      service_id: 0,
      job_index: JOB.payerIsCaller,
    });
    expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: 1 } });
  });
});

describe("A job whose caller signs", () => {
  test("runs for a permitted caller whoever pays, and the runner is told who it is", async () => {
    const claim = await sign();
    const { result, ...traces } = await watch(() =>
      buyOfficially(
        JOB.delegated,
        payer,
        claimHeaders({ ...claim, caller: claim.caller.toUpperCase().replace("0X", "0x") }),
      ),
    );
    expect(result).toMatchObject({ httpStatus: 202 });
    expect(traces).toEqual({ ...ONE_PAYMENT, nonces: 1, counted: { accepted: 1 } });
    expect(await callerOf(result)).toBe(caller.address.toLowerCase());
  });

  test("runs for a contract that approves of the signature, and is refused it for another one", async () => {
    const { anvil } = gateway.tangle;
    const wallet = await deployWallet({ anvil, name: "OwnedWallet", argument: stranger.address });
    await gateway.tangle.permit(wallet);
    const wrong = { ...(await sign()), caller: wallet };
    expect(await buy(wrong)).toMatchObject({ httpStatus: 403, code: "signature_mismatch" });
    const answer = await buy({ ...(await sign({ account: stranger })), caller: wallet });
    expect(answer).toMatchObject({ httpStatus: 202 });
    expect(await callerOf(answer)).toBe(wallet.toLowerCase());
  });

  test("takes the headers that jobgate sign-caller prints", async () => {
    const { stdout } = await runJobgate(
      [
        "sign-caller",
        "--service-id",
        "0",
        "--job-index",
        String(JOB.delegated),
        "--body",
        "b",
        "--key",
        "env:K",
      ],
      { files: { b: "work" }, env: { K: caller.privateKey } },
    );
    const printed = Object.fromEntries(
      stdout
        .trim()
        .split("\n")
        .map((line) => line.split(": ")),
    );
    const { headers } = await gateway.pay();
    expect(await gateway.send(JOB.delegated, { ...headers, ...printed })).toMatchObject({ httpStatus: 202 });
  });

  test.each<[string, number, string, () => Promise<Partial<SignedClaim>>, Record<string, number>]>([
    ["no caller", 400, "missing_caller", async () => ({}), { policy_denied: 1 }],
    [
      "a bad signature",
      403,
      "signature_mismatch",
      async () => ({ ...(await sign()), nonce: "other" }),
      { policy_denied: 1 },
    ],
    [
      "an expiry that has passed",
      403,
      "signature_expired",
      () => sign({ expiry: Math.floor(Date.now() / 1000) }),
      { policy_denied: 1 },
    ],
    [
      "a caller that is not permitted",
      403,
      "caller_not_permitted",
      () => sign({ account: stranger }),
      { policy_denied: 1 },
    ],
  ])("is refused with %s, and nothing moves", async (_, status, code, claim, counted) => {
    const { headers } = await gateway.pay();
    const sent = { ...headers, ...claimHeaders(await claim()) };
    const { result, ...traces } = await watch(() => gateway.send(JOB.delegated, sent));
    const ids = status === 403 ? { service_id: 0, job_index: JOB.delegated } : {};
    expect(result).toMatchObject({ httpStatus: status, code, charged: false, retryable: false, ...ids });
    expect(traces).toEqual({ ...NOTHING, counted });
  });

  test("is refused, and nothing moves, while the chain cannot be asked; and runs once it can", async () => {
    const { headers } = await gateway.pay();
    const sent = { ...headers, ...claimHeaders(await sign()) };
    gateway.policyRpc.add({ rpcMethod: "eth_call", fault: { kind: "cut" } });
    const { result, ...traces } = await watch(() => gateway.send(JOB.delegated, sent));
    expect(result).toMatchObject({
      httpStatus: 503,
      code: "permission_check_failed",
      charged: false,
      retryable: true,
    });
    expect(traces).toEqual({ ...NOTHING, counted: { policy_error: 1 } });
    gateway.policyRpc.clear();
    expect(await gateway.send(JOB.delegated, sent)).toMatchObject({ httpStatus: 202 });
  });

  test("asks for a payment before it looks at the caller, and for the caller before it asks the facilitator", async () => {
    const claim = claimHeaders({ ...(await sign()), signature: "0x00" });
    expect(await gateway.send(JOB.delegated, claim)).toMatchObject({
      httpStatus: 402,
      code: "payment_required",
    });
    const { headers } = await gateway.pay();
    const verifies = gateway.facilitator.counts.verify;
    expect(await gateway.send(JOB.delegated, { ...headers, ...claim })).toMatchObject({
      code: "invalid_signature",
    });
    expect(gateway.facilitator.counts.verify).toBe(verifies);
  });
});

test("Restricted: disabled job with a good payment → 403 and no settle", async () => {
  const { headers } = await gateway.pay({ job: JOB.public });
  const { result, ...traces } = await watch(() => gateway.send(JOB.disabled, headers));
  expect(result).toMatchObject({
    httpStatus: 403,
    code: "x402_disabled",
    charged: false,
    service_id: 0,
    job_index: JOB.disabled,
  });
  expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: 1 } });
});

describe("Restricted: nonce reuse", () => {
  const REPLAY = { httpStatus: 409, code: "signature_replay", charged: false, retryable: false };

  test("is refused with another payment, with the caller in another letter case, and after a restart", async () => {
    const claim = await sign();
    expect(await buy(claim)).toMatchObject({ httpStatus: 202 });
    const { result, ...traces } = await watch(() => buy(claim));
    expect(result).toMatchObject(REPLAY);
    expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: 1, replay_denied: 1 } });

    const otherCase = { ...claim, caller: claim.caller.toLowerCase() };
    expect(await buy(otherCase)).toMatchObject(REPLAY);
    // Signed anew, over another body: it is the nonce that counts.
    expect(await buy(await sign({ nonce: claim.nonce, body: "more" }), "more")).toMatchObject(REPLAY);

    await gateway.restart();
    const afterwards = await watch(() => Promise.all([buy(claim), buy(otherCase)]));
    expect(afterwards.result).toMatchObject([REPLAY, REPLAY]);
    expect(afterwards).toMatchObject(NOTHING);
  });

  test("50 at once, with 50 payments: exactly one wins, and one is settled", async () => {
    const claim = await sign();
    const payments = await Promise.all(Array.from({ length: 50 }, () => gateway.pay()));
    const { result: answers, ...traces } = await watch(() =>
      Promise.all(
        payments.map(({ headers }, i) => {
          const cased = i % 2 === 0 ? claim.caller : claim.caller.toLowerCase();
          return gateway.send(JOB.delegated, { ...headers, ...claimHeaders({ ...claim, caller: cased }) });
        }),
      ),
    );
    expect(answers.filter(({ httpStatus }) => httpStatus === 202)).toHaveLength(1);
    expect(answers.filter(({ code }) => code === "signature_replay")).toHaveLength(49);
    expect(traces).toEqual({
      ...ONE_PAYMENT,
      nonces: 1,
      counted: { accepted: 1, policy_denied: 49, replay_denied: 49 },
    });
  });

  test("is no reuse for another caller", async () => {
    const nonce = crypto.randomUUID();
    expect(await buy(await sign({ nonce }))).toMatchObject({ httpStatus: 202 });
    expect(await buy(await sign({ nonce, account: owner }))).toMatchObject({ httpStatus: 202 });
  });

  test("is no reuse when the same payment is sent again: it gets the first outcome", async () => {
    const { headers } = await gateway.pay();
    const sent = { ...headers, ...claimHeaders(await sign()) };
    const first = await gateway.send(JOB.delegated, sent);
    expect(first).toMatchObject({ httpStatus: 202 });
    expect(await gateway.send(JOB.delegated, sent)).toEqual(first);
  });

  test("is no reuse after a refusal, nor once it is certain that nothing was charged", async () => {
    const claim = await sign();
    gateway.facilitatorProxy.add({ path: "/verify", fault: { kind: "cut" } });
    expect(await buy(claim)).toMatchObject({ httpStatus: 503, code: "facilitator_unavailable" });
    gateway.facilitatorProxy.clear();

    gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "delay-request", ms: 500 }, times: 1 });
    const settles = gateway.facilitatorProxy.count("/settle");
    const { headers, signed } = await gateway.pay();
    const sending = gateway.send(JOB.delegated, { ...headers, ...claimHeaders(claim) });
    for (let waited = 0; gateway.facilitatorProxy.count("/settle") === settles && waited < 5_000; waited += 5)
      await sleep(5);
    expect(await buy(claim), "while it is undecided").toMatchObject(REPLAY);
    await gateway.usdc.cancelAuthorization(payer, signed.authorization.nonce);
    expect(await sending).toMatchObject({ httpStatus: 402, code: "settlement_failed", charged: false });

    expect(await buy(claim)).toMatchObject({ httpStatus: 202 });
    expect(await buy(claim)).toMatchObject(REPLAY);
  });
});

describe("A dry run", () => {
  /** Nothing but the counter of its outcome changes. */
  async function dryRun(job: number, headers: Headers = {}) {
    const { result, ...traces } = await watch(() => gateway.dryRun(job, headers));
    expect(traces).toMatchObject(NOTHING);
    return { ...result, counted: traces.counted };
  }
  const ids = (job_index: number) => ({ service_id: 0, job_index });
  const allowed = { httpStatus: 200, allowed: true, counted: { auth_dry_run_allowed: 1 } };
  const denied = { allowed: false, counted: { auth_dry_run_denied: 1 } };

  test("lets everyone run a public job", async () => {
    const job = JOB.public;
    expect(await dryRun(job)).toEqual({ ...allowed, mode: "public_paid", ...ids(job) });
  });

  test("of a job that is disabled or has no price is refused as a purchase is", async () => {
    expect(await dryRun(JOB.disabled)).toMatchObject({
      ...denied,
      ...ids(JOB.disabled),
      httpStatus: 403,
      code: "x402_disabled",
    });
    expect(await dryRun(JOB.unpriced)).toMatchObject({
      allowed: false,
      ...ids(JOB.unpriced),
      httpStatus: 404,
      code: "job_not_found",
      counted: { auth_dry_run_denied: 1, job_not_found: 1 },
    });
  });

  test("of a job whose payer is its caller takes the payer of a verified payment, else the header", async () => {
    const job = JOB.payerIsCaller;
    const asked = { mode: "restricted_paid", caller: owner.address.toLowerCase(), ...ids(job) };
    const named = { "X-CHAIN-CALLER": owner.address };
    expect(await dryRun(job, named)).toEqual({ ...allowed, ...asked, caller_source: "header" });

    const verifies = gateway.facilitator.counts.verify;
    const { headers } = await gateway.pay({ job, account: owner });
    expect(await dryRun(job, headers)).toEqual({ ...allowed, ...asked, caller_source: "payment" });
    expect(gateway.facilitator.counts.verify).toBe(verifies + 1);

    const other = await gateway.pay({ job });
    expect(await dryRun(job, { ...other.headers, ...named })).toMatchObject({
      ...denied,
      ...ids(job),
      httpStatus: 403,
      code: "caller_not_permitted",
    });
    expect(await dryRun(job)).toMatchObject({
      ...denied,
      ...ids(job),
      httpStatus: 400,
      code: "missing_caller",
    });
  });

  test("believes no payment that the facilitator does not verify", async () => {
    const job = JOB.payerIsCaller;
    const { headers } = await gateway.pay({ job, account: { ...accounts.caller, address: owner.address } });
    expect(await dryRun(job, headers)).toMatchObject({ ...denied, httpStatus: 402, code: "payment_invalid" });
    expect(await dryRun(job, { "PAYMENT-SIGNATURE": "!" })).toMatchObject({
      ...denied,
      httpStatus: 400,
      code: "invalid_payment",
    });
  });

  test("Restricted: dry-run then the paid call with the same nonce → works", async () => {
    const claim = await sign();
    const job = JOB.delegated;
    for (let run = 0; run < 2; run++) {
      expect(await dryRun(job, claimHeaders(claim))).toEqual({
        ...allowed,
        mode: "restricted_paid",
        caller: caller.address.toLowerCase(),
        caller_source: "signature",
        ...ids(job),
      });
    }
    expect(await buy(claim)).toMatchObject({ httpStatus: 202 });
    expect(await dryRun(job, claimHeaders(claim))).toMatchObject({
      ...denied,
      ...ids(job),
      httpStatus: 409,
      code: "signature_replay",
    });
  });

  test("says of a caller what a purchase would", async () => {
    const job = JOB.delegated;
    const expired = await sign({ expiry: 1 });
    expect(await dryRun(job)).toMatchObject({
      ...denied,
      ...ids(job),
      httpStatus: 400,
      code: "missing_caller",
    });
    expect(await dryRun(job, claimHeaders(expired))).toMatchObject({
      ...denied,
      httpStatus: 403,
      code: "signature_expired",
    });
    gateway.policyRpc.add({ rpcMethod: "eth_call", fault: { kind: "cut" } });
    expect(await dryRun(job, claimHeaders(await sign()))).toMatchObject({
      allowed: false,
      ...ids(job),
      httpStatus: 503,
      code: "permission_check_failed",
      counted: { auth_dry_run_error: 1 },
    });
  });
});
