import { decodePaymentRequiredHeader, decodePaymentSignatureHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  findAcceptsObjectFromSignedOffer,
  type SignedOffer,
  type SignedReceipt,
  verifyOfferSignatureEIP712,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureEIP712,
} from "@x402/extensions/offer-receipt";
import { expect, it, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch, requestOffer, signV1Payment } from "../helpers/clients.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { openEvents } from "../helpers/server-sent-events.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { withPermit2, withReceipts } from "./paid-config.ts";
import { type Answer, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const signer = accounts.payTo;
const payer = accounts.payer;
const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => withPermit2(withReceipts(config)),
    handle: ({ body }) => {
      if (Buffer.from(body).includes("impossible")) throw new Error("no");
      return { body: Buffer.from("done"), contentType: "text/plain" };
    },
  }),
);

/** Verifies every offer of a 402, and returns the first. */
async function verifiedOffer(required: PaymentRequired) {
  const signed = extractOffersFromPaymentRequired(required);
  expect(signed).toHaveLength(required.accepts.length);
  for (const [i, offer] of decodeSignedOffers(signed).entries()) {
    const verified = await verifyOfferSignatureEIP712(
      offer.signedOffer as SignedOffer & { format: "eip712" },
    );
    expect(verified.signer).toBe(signer.address);
    expect(findAcceptsObjectFromSignedOffer(offer, required.accepts)).toBe(required.accepts[i]);
    const now = Date.now() / 1000;
    expect(offer.validUntil).toBeGreaterThan(now);
    expect(offer.validUntil).toBeLessThanOrEqual(now + 300);
  }
  return decodeSignedOffers(signed)[0] as NonNullable<ReturnType<typeof decodeSignedOffers>[0]>;
}

async function expectReceipt(receipt: SignedReceipt | undefined, required: PaymentRequired) {
  expect(receipt).toMatchObject({ format: "eip712" });
  const verified = await verifyReceiptSignatureEIP712(receipt as SignedReceipt & { format: "eip712" });
  expect(verified.signer).toBe(signer.address);
  const [offer] = decodeSignedOffers(extractOffersFromPaymentRequired(required));
  if (receipt === undefined || offer === undefined) throw new Error("nothing to compare");
  expect(verifyReceiptMatchesOffer(receipt, offer, [payer.address])).toBe(true);
  expect(verifyReceiptMatchesOffer(receipt, offer, [accounts.otherPayer.address])).toBe(false);
}

const bearer = ({ access_token }: Answer) => ({ authorization: `Bearer ${access_token}` });
const callUrl = ({ call_id }: Answer, tail = "") => `${gateway.jobgate.x402Url}/x402/calls/${call_id}${tail}`;

/** Reads a result once it is there. */
async function resultOf(answer: Answer): Promise<Response> {
  await (await openEvents(callUrl(answer, "/events"), bearer(answer))).rest();
  const response = await fetch(callUrl(answer, "/result"), { headers: bearer(answer) });
  expect([response.status, await response.clone().text()]).toEqual([200, "done"]);
  return response;
}

it("Signs its offers, and the official client buys with them and gets a receipt with the result", async () => {
  const offers: PaymentRequired[] = [];
  const sent: string[] = [];
  const paying = payingFetch({
    account: payer,
    network: `eip155:${parts.anvil.chainId}`,
    transferMethod: "eip3009",
    spendControls: false,
    async fetch(input, init) {
      const request = new Request(input, init);
      sent.push(request.headers.get("payment-signature") ?? "");
      const response = await fetch(request);
      const header = response.headers.get("payment-required");
      if (header !== null) offers.push(decodePaymentRequiredHeader(header));
      return response;
    },
  });
  const response = await paying(gateway.urlOf(), {
    method: "POST",
    body: "by the official client",
    headers: { prefer: "wait=50" },
  });
  expect([response.status, await response.text()]).toEqual([200, "done"]);
  const [required] = offers as [PaymentRequired];
  await verifiedOffer(required);
  const echoed = decodePaymentSignatureHeader(sent[1] as string);
  expect(echoed).toMatchObject({ extensions: { "offer-receipt": required.extensions?.["offer-receipt"] } });
  await expectReceipt(extractReceiptFromResponse(response), required);
});

it("Gives the same receipt with the result, its event and after a restart, and none before", async () => {
  const { v2: required } = await requestOffer(gateway.urlOf());
  const answer = await gateway.send(await gateway.sign(), { body: "same receipt" });
  expect(answer).toMatchObject(ACCEPTED);
  expect(answer.settlement).not.toHaveProperty("extensions");
  const response = await resultOf(answer);
  const receipt = extractReceiptFromResponse(response);
  await expectReceipt(receipt, required);
  expect(receipt).toMatchObject({
    payload: {
      version: 1,
      network: `eip155:${parts.anvil.chainId}`,
      resourceUrl: required.resource?.url,
      payer: payer.address.toLowerCase(),
      transaction: "",
    },
  });
  const events = await (await openEvents(callUrl(answer, "/events"), bearer(answer))).rest();
  expect(events.at(-1)).toMatchObject({
    event: "succeeded",
    data: { extensions: { "offer-receipt": { info: { receipt } } } },
  });
  const state = await fetch(callUrl(answer), { headers: bearer(answer) });
  expect(await state.json()).not.toHaveProperty("extensions");

  await gateway.restart();
  expect(extractReceiptFromResponse(await resultOf(answer))).toEqual(receipt);
});

it("Takes payments that return other offers than it would sign now, or none", async () => {
  const { v2: required } = await requestOffer(gateway.urlOf());
  const [offer] = extractOffersFromPaymentRequired(required);
  const { payload: signed } = offer as { payload: object };
  const earlier = { ...offer, payload: { ...signed, validUntil: 1 }, signature: "0x00" };
  const extensions = { ...required.extensions, "offer-receipt": { info: { offers: [earlier] } } };
  const payment = await gateway.sign({ edit: (payload) => ({ ...payload, extensions }) });
  await gateway.restart();
  expect(await gateway.send(payment, { body: "an earlier minute" })).toMatchObject(ACCEPTED);
  const answer = await gateway.send(await gateway.sign(), { body: "no extension" });
  expect(answer).toMatchObject(ACCEPTED);
  expect(extractReceiptFromResponse(await resultOf(answer))).toBeDefined();
  const { v1 } = await requestOffer(gateway.urlOf());
  const ofV1 = await signV1Payment({ account: payer, offer: v1 });
  expect(await gateway.send(ofV1, { body: "version 1" })).toMatchObject({ status: 202 });
});

it("Signs the offers of a refusal, and gives no receipt for a job that failed", async () => {
  const payment = await gateway.sign({ authorization: { value: "1" } });
  const refused = await fetch(gateway.urlOf(), { method: "POST", body: "short", headers: payment.headers });
  expect(refused.status).toBe(402);
  await verifiedOffer(decodePaymentRequiredHeader(refused.headers.get("payment-required") ?? ""));

  // The runner retries, so the call may go on; its events so far have no receipt.
  const failing = await gateway.send(await gateway.sign(), { body: "impossible" });
  await gateway.waitForJobs("impossible");
  const state = await fetch(callUrl(failing, "/result"), { headers: bearer(failing) });
  expect([state.status === 200, state.headers.get("payment-response")]).toEqual([false, null]);
});

it("Signs offers and receipts over MCP and for buyers over MPP", async () => {
  const url = `${gateway.jobgate.x402Url}/mcp`;
  const call = async (meta: object) => {
    const params = { name: "job-1-0", arguments: { body: "a tool" }, _meta: meta };
    const { result } = await sendRpc(url, "tools/call", params);
    return result as { structuredContent: PaymentRequired; _meta: Record<string, SettlementLike> };
  };
  const { structuredContent: required } = await call({});
  await verifiedOffer(required);
  const { payload } = await gateway.sign();
  const { _meta: meta } = await call({ "x402/payment": payload });
  const settled = meta["x402/payment-response"];
  expect(settled).toMatchObject({ success: true, transaction: expect.stringMatching(/^0x/) });
  await expectReceipt(settled?.extensions["offer-receipt"].info.receipt, required);

  const overMpp = gateway.at("evm");
  const answer = await overMpp.send(await overMpp.sign({ body: "by MPP" }), { body: "by MPP" });
  await expectReceipt(extractReceiptFromResponse(await resultOf(answer)), required);
});

interface SettlementLike {
  readonly extensions: { readonly "offer-receipt": { readonly info: { readonly receipt: SignedReceipt } } };
}

test("The 402 with the offers of three tokens fits the headers that clients take", async () => {
  const response = await fetch(gateway.urlOf(), { method: "POST" });
  expect((response.headers.get("payment-required") ?? "").length).toBeLessThan(6 * 1024);
});
