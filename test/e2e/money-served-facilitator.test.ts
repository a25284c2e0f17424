import { connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV1Payment } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, UNAVAILABLE } from "./expected-answers.ts";
import { paidJobs, watchLedger } from "./ledger.ts";
import { startPaidParts } from "./paid-parts.ts";
import { SHOP_TOKEN, startSellingGateway, startServingGateway } from "./served-facilitator.ts";

const parts = startBeforeAll(startPaidParts);
const serving = startBeforeAll(() => startServingGateway({ parts }));
const selling = startBeforeAll(() => startSellingGateway({ parts, serviceUrl: serving.serviceUrl }));

/** The facilitator of the other tests is not asked. */
const paidElsewhere = (count: number) => ({ ...paidJobs(count), verifyCalls: 0, settleCalls: 0 });

/** Number of successes that the serving gateway has counted. */
async function successes(): Promise<number> {
  const metrics = await (await fetch(`${serving.jobgate.operatorUrl}/metrics`)).text();
  return Number(
    /jobgate_facilitator_service_settlements_total\{seller="shop",outcome="success"\} (\d+)/.exec(
      metrics,
    )?.[1] ?? 0,
  );
}

describe("A jobgate that sells through another jobgate's facilitator", () => {
  it("Is paid in both versions, with one transaction for each payment, which the other one counts", async () => {
    const { settler: address, jobgate } = serving;
    const before = await parts.anvil.client.getTransactionCount({ address });
    const expectChanges = await watchLedger(parts, selling);
    const payment = await selling.sign();
    const first = await selling.send(payment, { body: "served" });
    expect(first).toMatchObject(ACCEPTED);
    expect(await selling.send(payment, { body: "served" })).toEqual(first);
    const { v1 } = await requestOffer(selling.urlOf());
    const inV1 = await signV1Payment({ offer: v1, account: accounts.payer });
    expect(await selling.send(inV1, { body: "served in v1" })).toMatchObject({ status: 202 });
    await expectChanges(paidElsewhere(2));
    expect(await parts.anvil.client.getTransactionCount({ address })).toBe(before + 2);

    const metrics = await (await fetch(`${jobgate.operatorUrl}/metrics`)).text();
    expect(metrics).toContain(
      'jobgate_facilitator_service_settlements_total{seller="shop",outcome="success"} 2',
    );
    expect(metrics).toMatch(
      /jobgate_http_requests_total\{listener="facilitator",route="\/settle",.*code="200"/,
    );
  });

  it("Learns of a payment's success once, however often and how many at once it sends the payment, unless it left before", async () => {
    const { payload } = await selling.sign();
    const { accepted: paymentRequirements } = payload;
    const body = JSON.stringify({ x402Version: 2, paymentPayload: payload, paymentRequirements });
    const headers = { authorization: `Bearer ${SHOP_TOKEN}`, "content-type": "application/json" };
    const settle = async () => {
      const response = await fetch(`${serving.serviceUrl}/settle`, { method: "POST", body, headers });
      return (await response.json()) as Record<string, unknown>;
    };
    const { hostname, port } = new URL(serving.serviceUrl);
    const socket = connect(Number(port), hostname);
    const lines = Object.entries({ ...headers, host: hostname, "content-length": Buffer.byteLength(body) });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const before = await successes();
    await new Promise<void>((sent) => {
      socket.write(`POST /settle HTTP/1.1\r\n${head}\r\n${body}`, () => sent());
    });
    socket.end();
    await expect.poll(successes).toBe(before + 1);
    const answers = await Promise.all(Array.from({ length: 10 }, () => settle()));
    answers.push(await settle());
    const told = answers.filter(({ success }) => success === true);
    expect(told).toEqual([expect.objectContaining({ transaction: expect.stringMatching(/^0x/) })]);
    const [{ transaction }] = told as [{ transaction: string }];
    expect(answers.filter((answer) => !told.includes(answer))).toEqual(
      Array.from({ length: 10 }, () => ({
        ...{ success: false, errorReason: "duplicate_settlement", transaction },
        network: paymentRequirements.network,
      })),
    );
  });

  it("A wrong token leads to no charge", async () => {
    const { serviceUrl } = serving;
    const stranger = await startSellingGateway({ parts, serviceUrl, token: "a-wrong-token" });
    onTestFinished(() => stranger.stop().then(() => undefined));
    const expectChanges = await watchLedger(parts, stranger);
    expect(await stranger.send(await stranger.sign())).toEqual(UNAVAILABLE);
    await expectChanges({});
  });

  it("No payer is charged while the other facilitator has no funds for gas", async () => {
    const poor = await startServingGateway({ parts, fundsWei: 10n ** 15n });
    onTestFinished(() => poor.stop());
    const seller = await startSellingGateway({ parts, serviceUrl: poor.serviceUrl });
    onTestFinished(() => seller.stop());
    const expectChanges = await watchLedger(parts, seller);
    expect(await seller.send(await seller.sign())).toEqual(UNAVAILABLE);
    await expectChanges({});
  });

  it("Calls its next facilitator while the first has no funds for gas", async () => {
    const poor = await startServingGateway({ parts, fundsWei: 10n ** 15n });
    onTestFinished(() => poor.stop());
    const { serviceUrl } = poor;
    const seller = await startSellingGateway({ parts, serviceUrl, nextUrl: parts.facilitator.url });
    onTestFinished(() => seller.stop());
    const settled = parts.facilitator.counts.settle;
    expect(await seller.send(await seller.sign(), { body: "elsewhere" })).toMatchObject(ACCEPTED);
    await seller.waitForJobs("elsewhere");
    expect(parts.facilitator.counts.settle).toBe(settled + 1);
  });
});
