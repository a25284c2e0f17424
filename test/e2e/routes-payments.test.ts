import { createHash } from "node:crypto";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequiredV1 } from "@x402/core/types/v1";
import { beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders, signClaim } from "../helpers/caller-claim.ts";
import { signV1Payment, signV2Payment } from "../helpers/clients.ts";
import { readChallenges, signChallenge } from "../helpers/mpp.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startTangle } from "../helpers/tangle.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const TARGET = "/weather/Paris?units=metric";

const parts = startBeforeAll(startPaidParts);
const tangle = startBeforeAll(startTangle);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    ...{ parts, setUp: "rpc_url" },
    handle: ({ callId }) => ({
      ...{ body: Buffer.from(`{"call":${callId}}`), contentType: "application/json" },
      ...{ status: 203, headers: { ETag: `"${callId}"`, Warning: "214 - x" } },
    }),
    edit: (config) => `${config}
[[jobs]]
route = "GET|POST /weather/{city}"
price_wei = "1000000000000000"
answer = "result"
[[jobs]]
service_id = 0
job_index = 7
route = "GET|POST /restricted/{city}"
price_wei = "1000000000000000"
mode = "restricted_paid"
auth_mode = "delegated_caller_signature"
chain_rpc_url = "${tangle.anvil.rpcUrl}"
chain_contract = "${tangle.contract}"
`,
  }),
);
beforeAll(() => tangle.permit(accounts.caller.address));

const send = (target: string, init: RequestInit = {}) => fetch(`${gateway.jobgate.x402Url}${target}`, init);

/** Protocols, each by what signs a payment for the 402 of a request. */
const PROTOCOLS = {
  async v1(asked: Response) {
    const offer = (await asked.json()) as PaymentRequiredV1;
    return (await signV1Payment({ offer, account: accounts.payer })).headers;
  },
  async v2({ headers }: Response) {
    const offer = decodePaymentRequiredHeader(headers.get("payment-required") ?? "");
    return (await signV2Payment({ offer, account: accounts.payer })).headers;
  },
  async MPP({ headers }: Response) {
    const [challenge] = readChallenges(headers.get("www-authenticate") ?? "");
    if (challenge === undefined) throw new Error("no challenge");
    return (await signChallenge({ challenge, account: accounts.payer })).headers;
  },
} as const;

describe.each(Object.entries(PROTOCOLS))("A payment over %s for a route", (_, sign) => {
  it("gets the first answer with its status and headers again, and buys no other request", async () => {
    const headers = await sign(await send(TARGET));
    const read = async (answer: Response) => {
      const { etag, warning, "x-call-id": id, "content-type": type } = Object.fromEntries(answer.headers);
      return { status: answer.status, etag, warning, type, id, body: await answer.text() };
    };
    const before = await parts.usdc.balanceOf(accounts.payTo.address);
    const first = await read(await send(TARGET, { headers }));
    expect(first).toMatchObject({
      status: 203,
      etag: `"${first.id}"`,
      warning: "214 - x",
      body: `{"call":${first.id}}`,
    });
    expect(await read(await send(TARGET, { headers }))).toEqual(first);
    for (const [target, method] of [
      ["/weather/Paris?units=kelvin", "GET"],
      ["/weather/Paris", "GET"],
      ["/weather/Rome?units=metric", "GET"],
      [TARGET, "POST"],
    ] as const) {
      const answer = await send(target, { method, headers });
      expect([answer.status, await answer.json()]).toMatchObject([409, { code: "payment_replay" }]);
    }
    expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(before + AMOUNT);
    const calls = gateway.delivered.filter(({ callId }) => String(callId) === first.id);
    expect(calls).toHaveLength(1);
  });
});

describe("The signature of a delegated caller at a route", () => {
  const target = "/restricted/Paris?units=metric";
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
  /** Buys with a claim for a hash, in place of that of the body. */
  async function buy(requestHash: string | undefined, init: RequestInit = {}) {
    const payment = await PROTOCOLS.v2(await send(target, init));
    const claim = await signClaim({
      ...{ account: accounts.caller, serviceId: 0n, jobIndex: 7, body: String(init.body ?? "") },
      ...(requestHash !== undefined && { requestHash }),
    });
    const answer = await send(target, {
      ...init,
      headers: { ...init.headers, ...payment, ...claimHeaders(claim) },
    });
    return { status: answer.status, body: await answer.json() };
  }

  it("is over the hash of the whole request", async () => {
    expect(await buy(sha256("GET\n/restricted/Paris\nunits=metric\n\n"))).toMatchObject({ status: 202 });
    const post = { method: "POST", body: "work", headers: { "content-type": "text/plain" } };
    const head = "POST\n/restricted/Paris\nunits=metric\ncontent-type: text/plain\n\n";
    expect(await buy(sha256(`${head}work`), post)).toMatchObject({ status: 202 });
  });

  it.each([
    ["the body alone", undefined],
    ["another query", sha256("GET\n/restricted/Paris\nunits=kelvin\n\n")],
    ["another path", sha256("GET\n/restricted/Rome\nunits=metric\n\n")],
    ["another method", sha256("POST\n/restricted/Paris\nunits=metric\n\n")],
  ])("is refused over %s", async (_, hash) => {
    const before = await parts.usdc.balanceOf(accounts.payTo.address);
    expect(await buy(hash)).toMatchObject({ status: 403, body: { charged: false } });
    expect(await parts.usdc.balanceOf(accounts.payTo.address)).toBe(before);
  });
});
