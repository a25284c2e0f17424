import { connect } from "node:net";
import { text } from "node:stream/consumers";
import type { PaymentPayload } from "@x402/core/types";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { base64Json, requestOffer, signPermit2Payment, signV1Payment } from "../helpers/clients.ts";
import { credentialHeaders, type MppChallenge, requestChallenges, signChallenge } from "../helpers/mpp.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import {
  ALL_PROTOCOLS,
  type Answer,
  type ProtocolName,
  paysByX402,
  startPaidGateway,
} from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp: "rpc_url" }));

/** The facilitator gets no request, nothing is stored, and no job runs. */
async function expectRefused(answer: () => Promise<Answer>, expected: Partial<Answer>): Promise<void> {
  const expectChanges = await watchLedger(parts, gateway);
  expect(await answer()).toEqual({ charged: false, retryable: false, ...expected });
  await expectChanges({});
}

const mismatch = { status: 402, code: "payment_mismatch" };
const nowSecs = () => Math.floor(Date.now() / 1000);

const BY_X402 = ALL_PROTOCOLS.filter(paysByX402);
const BY_MPP = ALL_PROTOCOLS.filter((protocol) => !paysByX402(protocol));

/** All cases with the first protocol. With each other one the first case, because all protocols compare in one place. */
function casesOf<Case>(protocols: readonly ProtocolName[], cases: Readonly<Record<string, Case>>) {
  return protocols.flatMap((protocol, i) =>
    Object.entries(cases)
      .slice(0, i === 0 ? undefined : 1)
      .map(([what, value]) => [what, protocol, value] as const),
  );
}

describe("Mismatch: the signed authorization differs from the offer", () => {
  const signed = {
    "a unit short": { value: String(AMOUNT - 1n) },
    "a unit over": { value: String(AMOUNT + 1n) },
    "another payTo": { to: accounts.stranger.address },
    "an authorization that has expired": { validBefore: String(nowSecs() - 1) },
    "an authorization that is not valid yet": { validAfter: String(nowSecs() + 1000) },
    "an authorization with under 6 s left": { validBefore: String(nowSecs() + 5) },
  };
  it.each(casesOf(ALL_PROTOCOLS, signed))(
    "%s is refused before verify (%s)",
    async (_what, protocol, authorization) => {
      const { sign, send } = gateway.at(protocol);
      const payment = await sign({ authorization });
      await expectRefused(() => send(payment), mismatch);
    },
  );
});

describe("Mismatch: the payment names an offer that was not made", () => {
  const edits: Record<string, Partial<PaymentPayload["accepted"]>> = {
    "another chain": { network: "eip155:8453" },
    "another asset": { asset: accounts.stranger.address },
    "an edited accepted.amount": { amount: "1" },
    "an edited accepted.payTo": { payTo: accounts.stranger.address },
    "an edited extra": { extra: { name: "USDC", version: "1" } },
    "an added extra": { extra: { name: "USDC", version: "2", assetTransferMethod: "permit2" } },
    "another scheme": { scheme: "upto" },
  };
  it.each(casesOf(BY_X402, edits))("%s is refused before verify (%s)", async (_what, protocol, accepted) => {
    const payment = await gateway.sign({
      edit: (payload) => ({ ...payload, accepted: { ...payload.accepted, ...accepted } }),
    });
    await expectRefused(() => gateway.at(protocol).send(payment), mismatch);
  });

  it.each(BY_X402)(
    "A payment that is truly signed for a cheaper, edited offer is refused before verify (%s)",
    async (protocol) => {
      const payment = await gateway.sign({
        authorization: { value: "1" },
        edit: (payload) => ({ ...payload, accepted: { ...payload.accepted, amount: "1" } }),
      });
      await expectRefused(() => gateway.at(protocol).send(payment), mismatch);
    },
  );

  it.each(BY_X402)(
    "A Permit2 payload against an EIP-3009 offer is refused before verify (%s)",
    async (protocol) => {
      const { v2 } = await requestOffer(gateway.urlOf());
      const payment = await signPermit2Payment({ offer: v2, account: accounts.payer });
      await expectRefused(() => gateway.at(protocol).send(payment), mismatch);
    },
  );
});

describe.each(BY_MPP)("Mismatch: the challenge that is paid (%s)", (protocol) => {
  const { account, domain } = { account: accounts.payer, domain: { name: "USDC", version: "2" } };
  const pay = async (edit: (challenge: MppChallenge) => MppChallenge, job = 0) => {
    const [challenge] = await requestChallenges(gateway.at(protocol).urlOf(job));
    return signChallenge({ challenge: edit(challenge as MppChallenge), account, domain });
  };
  const withRequest = (change: (request: Record<string, unknown>) => object) => (challenge: MppChallenge) => {
    const request = JSON.parse(Buffer.from(challenge.request, "base64url").toString());
    const changed = JSON.stringify({ ...request, ...change(request) });
    return { ...challenge, request: Buffer.from(changed).toString("base64url") } as MppChallenge;
  };
  const edits: Record<string, (challenge: MppChallenge) => MppChallenge> = {
    "a smaller amount": withRequest(() => ({ amount: "1" })),
    "another recipient": withRequest(() => ({ recipient: accounts.stranger.address })),
    "another token": withRequest(() => ({ currency: accounts.stranger.address })),
    "another chain": withRequest(({ methodDetails }) => ({
      methodDetails: { ...(methodDetails as object), chainId: 8453, network: "eip155:8453" },
    })),
    "another realm": (challenge) => ({ ...challenge, realm: "elsewhere" }) as MppChallenge,
    "a later end": (challenge) =>
      ({ ...challenge, expires: new Date(Date.now() + 900_000).toISOString() }) as MppChallenge,
    "another ID": (challenge) => ({ ...challenge, id: "A".repeat(43) }) as MppChallenge,
  };
  it.each(Object.entries(edits))("%s is refused before verify", async (what, edit) => {
    const payment = await pay(edit);
    // The payload of blueprintevm names its network itself.
    const isMalformed = what === "another chain" && protocol === "blueprintevm";
    const expected = isMalformed ? { status: 402, code: "malformed_credential" } : mismatch;
    await expectRefused(() => gateway.at(protocol).send(payment), expected);
  });

  it("A payment for another job is refused before verify", async () => {
    const payment = await pay((challenge) => challenge);
    await expectRefused(() => gateway.at(protocol).send(payment, { job: 1 }), mismatch);
  });

  it.each([
    ["another payer", () => `did:pkh:eip155:${parts.anvil.chainId}:${accounts.stranger.address}`],
    ["another chain", () => `did:pkh:eip155:1:${account.address}`],
    ["another method", () => `did:key:${account.address}`],
    ["no payer", () => ""],
  ])("A source of %s is refused before verify", async (_what, source) => {
    const payment = await pay((challenge) => challenge);
    const forged = credentialHeaders({ ...payment.credential, source: source() });
    await expectRefused(() => gateway.at(protocol).send({ headers: forged }), mismatch);
  });

  it("A challenge that has expired is refused before verify, though its authorization is valid for longer", async () => {
    const { sign, send } = gateway.at(protocol);
    const expired = await sign({ authorization: { validBefore: String(nowSecs() + 600) } });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 301_000 });
    onTestFinished(() => void vi.useRealTimers());
    await expectRefused(() => send(expired), mismatch);
  });
});

it.each(["evm", "evm over mcp"] as const)(
  "A payment with a nonce that does not name the challenge is refused before verify (%s)",
  async (protocol) => {
    const { sign, send } = gateway.at(protocol);
    const payment = await sign({ authorization: { nonce: `0x${"ab".repeat(32)}` } });
    await expectRefused(() => send(payment), mismatch);
  },
);

describe("Mismatch: headers", () => {
  const invalid = { status: 400, code: "invalid_payment" };

  it("v1 and v2 headers that disagree are refused before verify", async () => {
    const v2 = await gateway.sign();
    const { v1: offer } = await requestOffer(gateway.urlOf());
    const v1 = await signV1Payment({ offer, account: accounts.payer });
    await expectRefused(() => gateway.send({ headers: { ...v1.headers, ...v2.headers } }), invalid);
  });

  it("v1 and v2 headers that hold one payment buy one job", async () => {
    const payment = await gateway.sign();
    const v1 = { x402Version: 1, scheme: "exact", network: "base-sepolia", payload: payment.payload.payload };
    const expectChanges = await watchLedger(parts, gateway);
    const headers = { ...payment.headers, "x-payment": base64Json(v1) };
    expect(await gateway.send({ headers }, { body: "both" })).toMatchObject({ status: 202 });
    await gateway.waitForJobs("both");
    await expectChanges(ONE_PAID_JOB);
  });

  it("A repeated payment header is refused before verify", async () => {
    const payment = await gateway.sign();
    const value = payment.headers["payment-signature"] as string;
    const { hostname, port, pathname } = new URL(gateway.urlOf());
    const raw = `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\nContent-Length: 0\r\n${`PAYMENT-SIGNATURE: ${value}\r\n`.repeat(2)}\r\n`;
    const expectChanges = await watchLedger(parts, gateway);
    const answer = await rawExchange(Number(port), raw);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('"code":"invalid_payment"');
    expect(answer).toContain('"charged":false');
    await expectChanges({});
  });

  it("A settlement that a client claims in X-PAYMENT-RESPONSE or PAYMENT-RESPONSE is ignored", async () => {
    const claim = base64Json({ success: true, transaction: `0x${"ab".repeat(32)}`, network: "eip155:84532" });
    const headers = { "x-payment-response": claim, "payment-response": claim };
    await expectRefused(() => gateway.send({ headers }), { status: 402, code: "payment_required" });
    const payment = await gateway.sign();
    const answer = await gateway.send(payment, { headers, body: "forged claim" });
    expect(answer.settlement?.transaction).not.toBe(`0x${"ab".repeat(32)}`);
    expect(answer.status).toBe(202);
    await gateway.waitForJobs("forged claim");
  });
});

it("A refused payment comes with a fresh offer that can be paid", async () => {
  const payment = await gateway.sign({ authorization: { value: "1" } });
  const response = await fetch(gateway.urlOf(), { method: "POST", headers: payment.headers });
  expect(response.status).toBe(402);
  expect(response.headers.get("payment-required")).toEqual(expect.any(String));
  expect(await response.json()).toMatchObject({
    code: "payment_mismatch",
    x402Version: 1,
    accepts: [{ maxAmountRequired: String(AMOUNT) }],
  });
});

/** Sends two headers with one name, which fetch cannot. */
async function rawExchange(port: number, request: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(request);
  return text(socket);
}
