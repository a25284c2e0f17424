import { fromBinary } from "@bufbuild/protobuf";
import { bytesToHex, keccak256, toBytes } from "viem";
import { describe, expect, it } from "vitest";
import { GetJobPriceRequestSchema } from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV1Payment, signV2Payment } from "../../helpers/clients.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG } from "../../helpers/small-configs.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const PRICE = 10n ** 15n;
/** A payment that answers an open offer reaches the facilitator, which is not there. */
const MATCHED = "facilitator_unavailable";

const engine = startBeforeAll(() => startPricingEngine({ prices: { "1/0": PRICE } }));
const jobgate = startBeforeAll(() => {
  const { chainId, verifyingContract, operatorAddress } = engine.signing;
  const sold = SALES_CONFIG.replace('price = "$0.01"', 'price = "engine"')
    .replace('rpc_url = "http://127.0.0.1:9"', "")
    .replace('token = "USDC"', 'token = "USDC"\nrate_per_native_unit = "3200"');
  return startEmbeddedJobgate({
    config: `${sold}${CLOSED_FACILITATOR}[pricing_engine]
url = "${engine.url}"
bind_address = "127.0.0.1:0"
chain_id = ${chainId}
verifying_contract = "${verifyingContract}"
operator_address = "${operatorAddress}"
proof_of_work_bits = 8
[[jobs]]
job_index = 1
mode = "public_paid"
price = "engine"
`,
  });
});

const url = (job = 0) => `${jobgate.x402Url}/x402/jobs/1/${job}`;
const inputsAsked = () =>
  engine.calls.map(({ request }) => bytesToHex(fromBinary(GetJobPriceRequestSchema, request).inputsHash));

async function codeOf(headers: Readonly<Record<string, string>>, body: string) {
  const answer = await fetch(url(), { method: "POST", headers, body });
  return ((await answer.json()) as { readonly code: string }).code;
}

describe('A job whose price is "engine"', () => {
  it("Costs what the engine quotes for the body's hash, and equal requests call the engine once", async () => {
    const before = engine.calls.length;
    const offers = await Promise.all(["one", "one", "two"].map((body) => requestOffer(url(), body)));
    expect(offers.map(({ v2 }) => v2.accepts[0]?.amount)).toEqual(["3200000", "3200000", "3200000"]);
    await requestOffer(url(), "one");
    expect(inputsAsked().slice(before).sort()).toEqual(
      [keccak256(toBytes("one")), keccak256(toBytes("two"))].sort(),
    );
  });

  it("Is bought by the request that the quote was made for, at its price, and by no other request", async () => {
    const { v2: offer } = await requestOffer(url(), "mine");
    const payment = await signV2Payment({ offer, account: accounts.payer });
    engine.prices.set("1/0", 2n * PRICE);
    expect(await codeOf(payment.headers, "mine")).toBe(MATCHED);
    expect(await codeOf(payment.headers, "other")).toBe("payment_mismatch");
    const { v1 } = await requestOffer(url(), "mine");
    const unsealed = await signV1Payment({ offer: v1, account: accounts.payer });
    expect(await codeOf(unsealed.headers, "mine")).toBe(MATCHED);
    expect(await codeOf(unsealed.headers, "other")).toBe("payment_mismatch");
    engine.prices.set("1/0", PRICE);
  });

  it("Is not bought at the price that its GET shows for no inputs", async () => {
    const { accepts } = (await (await fetch(url())).json()) as { accepts: { maxAmountRequired: string }[] };
    expect(accepts[0]?.maxAmountRequired).toBe("3200000");
    const { v1 } = await requestOffer(url(), "dear");
    engine.prices.set("1/0", 2n * PRICE);
    const shown = { ...v1, accepts: v1.accepts.map((one) => ({ ...one, maxAmountRequired: "3200000" })) };
    const payment = await signV1Payment({ offer: shown, account: accounts.payer });
    expect(await codeOf(payment.headers, "dearer")).toBe("payment_mismatch");
    engine.prices.set("1/0", PRICE);
  });

  it("Is 404 if the engine does not price it, and 503 while the engine fails", async () => {
    const post = async (job: number, body: string) =>
      (await fetch(url(job), { method: "POST", body })).json() as Promise<object>;
    expect(await post(1, "work")).toMatchObject({ code: "job_not_found" });
    engine.faults.fail = { code: 13, details: "disk full" };
    expect(await post(0, "failing")).toMatchObject({ code: "price_unavailable", charged: false });
    delete engine.faults.fail;
    engine.faults.signer = accounts.stranger;
    expect(await post(0, "forged")).toMatchObject({ code: "price_unavailable", charged: false });
    delete engine.faults.signer;
    engine.quoteLifetimeSecs = 5;
    expect(await post(0, "short")).toMatchObject({ code: "price_unavailable" });
    engine.quoteLifetimeSecs = 3600;
  });
});
