import { describe, expect, test } from "vitest";
import { runHereWith } from "../commands/operator-commands.ts";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders, highS, type SignedClaim } from "../helpers/caller-claim.ts";
import { payingFetch } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import { deployWallet, walletAccount } from "../helpers/wallets.ts";
import { ALL_PROTOCOLS } from "./paid-gateway.ts";
import { type Answer, type Headers, JOB, NETWORK } from "./restricted-gateway.ts";
import { accepted, NOTHING, ONE_PAYMENT, sign, withRestrictedGateway } from "./restricted-harness.ts";

const { caller, deployer: owner, payer, stranger } = accounts;
const { gateway, buy, watch } = withRestrictedGateway();

/** The official client, which requests, reads the price, pays and sends again, each time with these headers. */
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

const callerOf = ({ call_id }: Answer) =>
  eventually(() => {
    const call = gateway.runner.calls.find(({ callId }) => Number(callId) === call_id);
    if (call === undefined) throw new Error(`JobCall ${call_id} did not come`);
    return call.metadata["X-CHAIN-CALLER"];
  });

describe("A job with payer_is_caller", () => {
  test("Runs for a permitted payer, and the runner gets its address", async () => {
    const { result, ...traces } = await watch(() => buyOfficially(JOB.payerIsCaller, owner));
    expect(result).toMatchObject({ httpStatus: 202, service_id: 0, job_index: JOB.payerIsCaller });
    expect(traces).toEqual({ ...ONE_PAYMENT, nonces: 0, counted: { accepted: 1 } });
    expect(await callerOf(result)).toBe(owner.address.toLowerCase());
  });

  test.each(ALL_PROTOCOLS.slice(1))(
    "Runs for a permitted payer over another protocol (%s)",
    async (protocol) => {
      const { headers } = await gateway.pay({ job: JOB.payerIsCaller, account: owner, protocol });
      const { result, ...traces } = await watch(() =>
        gateway.send(JOB.payerIsCaller, headers, "work", protocol),
      );
      expect(result).toMatchObject({ httpStatus: 202 });
      expect(traces).toEqual({ ...ONE_PAYMENT, nonces: 0, counted: accepted(protocol) });
      expect(await callerOf(result)).toBe(owner.address.toLowerCase());
    },
  );

  test.each(ALL_PROTOCOLS)(
    "Is refused to any other payer before money moves, regardless of headers (%s)",
    async (protocol) => {
      const { headers } = await gateway.pay({ job: JOB.payerIsCaller, protocol });
      const claimed = { ...headers, "X-CHAIN-CALLER": owner.address };
      const { result, ...traces } = await watch(() =>
        gateway.send(JOB.payerIsCaller, claimed, "work", protocol),
      );
      expect(result).toMatchObject({
        httpStatus: 403,
        code: "caller_not_permitted",
        charged: false,
        retryable: false,
        service_id: 0,
        job_index: JOB.payerIsCaller,
      });
      expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: 1 } });
    },
  );
});

describe("A job with payer_is_caller and a payer that is a contract", () => {
  const pay = async () => {
    const { anvil, usdc } = gateway;
    const wallet = await deployWallet({ anvil, name: "OwnedWallet", argument: stranger.address });
    await usdc.mint(wallet, 1_000_000n);
    const { headers } = await gateway.pay({
      account: walletAccount(wallet, stranger),
      job: JOB.payerIsCaller,
    });
    return { wallet, headers };
  };

  test("Runs when the contract is permitted, and the runner gets its address", async () => {
    const { wallet, headers } = await pay();
    await gateway.tangle.permit(wallet);
    const { result, ...traces } = await watch(() => gateway.send(JOB.payerIsCaller, headers));
    expect(result).toMatchObject({ httpStatus: 202 });
    expect(traces).toEqual({ ...ONE_PAYMENT, nonces: 0, counted: { accepted: 1 } });
    expect(await callerOf(result)).toBe(wallet.toLowerCase());
  });

  test("Is refused before money moves when only its owner is permitted", async () => {
    await gateway.tangle.permit(stranger.address);
    const { headers } = await pay();
    const { result, ...traces } = await watch(() => gateway.send(JOB.payerIsCaller, headers));
    expect(result).toMatchObject({ httpStatus: 403, code: "caller_not_permitted", charged: false });
    expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: 1 } });
    await gateway.tangle.revoke(stranger.address);
  });
});

describe("A job with delegated_caller_signature", () => {
  test("Runs for a permitted caller regardless of the payer, and the runner gets the caller's address", async () => {
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

  test("Runs for a contract that approves the signature, and is refused if the contract does not", async () => {
    const { anvil } = gateway.tangle;
    const wallet = await deployWallet({ anvil, name: "OwnedWallet", argument: stranger.address });
    await gateway.tangle.permit(wallet);
    const wrong = { ...(await sign()), caller: wallet };
    expect(await buy(wrong)).toMatchObject({ httpStatus: 403, code: "signature_mismatch" });
    const answer = await buy({ ...(await sign({ account: stranger })), caller: wallet });
    expect(answer).toMatchObject({ httpStatus: 202 });
    expect(await callerOf(answer)).toBe(wallet.toLowerCase());
  });

  test("Accepts the headers that jobgate sign-caller prints", async () => {
    const { stdout } = await runHereWith(
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

  const inFuture = (seconds: number) => Math.floor(Date.now() / 1000) + seconds;
  const shaped = async (shape: (signature: SignedClaim["signature"]) => string) => {
    const claim = await sign();
    return { ...claim, signature: shape(claim.signature) as SignedClaim["signature"] };
  };
  /** Sent over each protocol, whose claim comes another way. What is wrong with it is then seen in one place. */
  const EACH_PROTOCOL = ["no caller", "a caller that is not permitted"];
  test.each<[string, number, string, () => Promise<Partial<SignedClaim>>]>([
    ["no caller", 400, "missing_caller", async () => ({})],
    [
      "a signature over another nonce",
      403,
      "signature_mismatch",
      async () => ({ ...(await sign()), nonce: "other" }),
    ],
    ["a caller that is not permitted", 403, "caller_not_permitted", () => sign({ account: stranger })],
    ["an expiry of now", 403, "signature_expired", () => sign({ expiry: inFuture(0) })],
    ["an expiry in the past", 403, "signature_expired", () => sign({ expiry: inFuture(-1) })],
    ["an expiry too far ahead", 400, "invalid_signature_expiry", () => sign({ expiry: inFuture(90_000) })],
    ["a signature with a high s", 400, "invalid_signature", () => shaped(highS)],
    ["a signature of 64 bytes", 400, "invalid_signature", () => shaped((text) => text.slice(0, -2))],
    ["a signature of 66 bytes", 400, "invalid_signature", () => shaped((text) => `${text}00`)],
    ["a signature with v = 5", 400, "invalid_signature", () => shaped((text) => `${text.slice(0, -2)}05`)],
    ["a signature that is not hex", 400, "invalid_signature", () => shaped(() => "not hex")],
    ["an empty signature", 400, "missing_signature", () => shaped(() => "")],
  ])("Is refused with %s, and nothing moves", async (what, status, code, claim) => {
    const protocols = EACH_PROTOCOL.includes(what) ? ALL_PROTOCOLS : (["x402"] as const);
    const ids = status === 403 ? { service_id: 0, job_index: JOB.delegated } : {};
    const refusal = { httpStatus: status, code, charged: false, retryable: false, ...ids };
    const { result, ...traces } = await watch(() =>
      Promise.all(protocols.map(async (protocol) => [protocol, await buy(await claim(), { protocol })])),
    );
    expect(result).toMatchObject(protocols.map((protocol) => [protocol, refusal]));
    expect(traces).toEqual({ ...NOTHING, counted: { policy_denied: protocols.length } });
  });

  test("Runs with v as 0 or 1", async () => {
    const claim = await shaped((text) => text.replace(/..$/, (v) => (v === "1b" ? "00" : "01")));
    expect(await buy(claim)).toMatchObject({ httpStatus: 202 });
  });

  test.each(["x402", "mcp"] as const)(
    "Is refused without a charge while the chain cannot be queried or its contract has no code, and runs afterwards (%s)",
    async (protocol) => {
      const { headers } = await gateway.pay({ protocol });
      const sent = { ...headers, ...claimHeaders(await sign()) };
      const noCode = { kind: "answer", status: 200, body: { jsonrpc: "2.0", id: 1, result: "0x" } } as const;
      for (const fault of [{ kind: "cut" }, noCode] as const) {
        gateway.policyRpc.add({ rpcMethod: "eth_call", fault });
        const { result, ...traces } = await watch(() => gateway.send(JOB.delegated, sent, "work", protocol));
        expect(result).toMatchObject({
          httpStatus: 503,
          code: "permission_check_failed",
          charged: false,
          retryable: true,
        });
        expect(traces).toEqual({ ...NOTHING, counted: { policy_error: 1 } });
        gateway.policyRpc.clear();
      }
      expect(await gateway.send(JOB.delegated, sent, "work", protocol)).toMatchObject({ httpStatus: 202 });
    },
  );

  test("Checks for a payment first, then the caller, then calls the facilitator", async () => {
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

test.each(ALL_PROTOCOLS)(
  "Restricted: disabled job with a good payment → 403 and no settle (%s)",
  async (protocol) => {
    const { headers } = await gateway.pay({ job: JOB.public, protocol });
    const { result, ...traces } = await watch(() =>
      gateway.send(JOB.disabled, headers, "work", protocol).catch(String),
    );
    // It is no tool and no skill.
    const isNamed = protocol === "a2a" || protocol.endsWith("mcp");
    if (isNamed) expect(result).toMatch(/There is no tool|expected one of/);
    else
      expect(result).toMatchObject({
        httpStatus: 403,
        code: "x402_disabled",
        charged: false,
        service_id: 0,
        job_index: JOB.disabled,
      });
    expect(traces).toEqual({ ...NOTHING, counted: isNamed ? {} : { policy_denied: 1 } });
  },
);
