import { describe, expect, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders } from "../helpers/caller-claim.ts";
import { type MppChallenge, requestChallenges, signChallenge } from "../helpers/mpp.ts";
import { type Headers, JOB } from "./restricted-gateway.ts";
import { NOTHING, sign, withRestrictedGateway } from "./restricted-harness.ts";

const { caller, deployer: owner } = accounts;
const { gateway, buy, watch } = withRestrictedGateway();

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

  test("Permits anyone to run a public job", async () => {
    const job = JOB.public;
    expect(await dryRun(job)).toEqual({ ...allowed, mode: "public_paid", ...ids(job) });
  });

  test("Of a disabled or unpriced job is refused as a purchase is", async () => {
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

  test("With payer_is_caller, uses the payer of a verified payment, else the header", async () => {
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
    // As in a purchase, the payment of a payer who is not permitted is not verified.
    expect(gateway.facilitator.counts.verify).toBe(verifies + 1);
    expect(await dryRun(job)).toMatchObject({
      ...denied,
      ...ids(job),
      httpStatus: 400,
      code: "missing_caller",
    });
  });

  test("Uses the payer of an MPP credential, if it is for this body", async () => {
    const job = JOB.payerIsCaller;
    const { headers } = await gateway.pay({ job, account: owner, protocol: "evm" });
    expect(await dryRun(job, headers)).toMatchObject({ ...allowed, caller_source: "payment" });
    const [challenge] = await requestChallenges(gateway.urlOf(job), "another body");
    const other = await signChallenge({ challenge: challenge as MppChallenge, account: owner });
    expect(await dryRun(job, other.headers)).toMatchObject({
      ...denied,
      ...ids(job),
      httpStatus: 402,
      code: "payment_mismatch",
    });
  });

  test("Ignores a payment that the facilitator does not verify", async () => {
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

  test("Refuses the same callers as a purchase", async () => {
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
