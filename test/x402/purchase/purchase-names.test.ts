import type { PaymentPayload } from "@x402/core/types";
import { expect, test } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import type { PurchaseNames } from "../../../src/x402/wire/version.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startAnotherGateway } from "../gateway-harness.ts";

/** Names as a part reads them. */
const NAMES: PurchaseNames = {
  read: ({ extensions }) => extensions?.name as string | undefined,
  taken: () => new GatewayError("duplicate_conflict", "Take another name."),
};

const parts = startBeforeAll(startPaidParts);
const named = (payload: PaymentPayload) => ({ ...payload, extensions: { name: "order 1" } });

async function startGateway(names?: PurchaseNames) {
  const { url: facilitatorUrl } = parts.facilitator;
  const methods = new Methods([], undefined, names);
  return startAnotherGateway({ methods, config: { facilitatorUrl }, parts: async () => [] });
}

test("A new payment under the name that a part reads has the first outcome, and another body the part's refusal", async () => {
  const gateway = await startGateway(NAMES);
  const { v2: offer } = await requestOffer(gateway.jobUrl());
  const sign = () => signV2Payment({ offer, account: accounts.payer, edit: named });
  const first = await gateway.post((await sign()).headers);
  expect(first.status).toBe(202);
  const again = await gateway.post((await sign()).headers);
  expect([again.status, again.body.call_id]).toEqual([202, first.body.call_id]);
  const other = await gateway.post((await sign()).headers, { body: "other" });
  expect([other.status, other.body.code]).toEqual([409, "duplicate_conflict"]);
});

test("A build in which nothing reads names buys twice", async () => {
  const gateway = await startGateway();
  const { v2: offer } = await requestOffer(gateway.jobUrl());
  const sign = () => signV2Payment({ offer, account: accounts.payer, edit: named });
  const [first, second] = [
    await gateway.post((await sign()).headers),
    await gateway.post((await sign()).headers),
  ];
  expect([first.status, second.status]).toEqual([202, 202]);
  expect(second.body.call_id).not.toBe(first.body.call_id);
});
