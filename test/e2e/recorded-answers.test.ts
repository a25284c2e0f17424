import { decodePaymentRequiredHeader } from "@x402/core/http";
import { expect, test } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import {
  type Offer,
  requestOffer,
  signV1Payment,
  signV2Payment,
  v2PaymentHeaders,
  withIdentifier,
} from "../helpers/clients.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { makeRunnerClient } from "../helpers/runner-client.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG } from "../helpers/small-configs.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidParts } from "./paid-parts.ts";

/* Answers and JobCalls as an earlier version made them, byte for byte but for what differs each time. A change that is meant
   to be seen outside updates the records: `npx vitest run test/e2e/recorded-answers.test.ts -u`. */

const RESTRICTED = `mode = "restricted_paid"
chain_rpc_url = "http://127.0.0.1:9"
chain_contract = "0x5FbDB2315678afecb367f032d93F642f64180aa3"`;

const JOBS = `
[[jobs]]
job_index = 1
price = "$0.02"
auth_mode = "delegated_caller_signature"
${RESTRICTED}
[[jobs]]
job_index = 2
price = "$0.02"
auth_mode = "payer_is_caller"
${RESTRICTED}
[[jobs]]
job_index = 3
price = "$0.02"
mode = "public_paid"
require_payment_identifier = true
description = "Needs an identifier"
tags = ["a", "b"]
[[jobs]]
job_index = 4
price = "$0.02"
mode = "public_paid"
on_failure = "keep"
[[jobs]]
job_index = 5
price = "$0.03"
mode = "public_paid"
charge = "after"
max_run_secs = 60
[[jobs]]
job_index = 6
mode = "public_paid"
price = { per = "body:KiB", each = "$0.001", min = "$0.002", max = "$1" }
[[jobs]]
job_index = 7
price = "$0.02"
mode = "disabled"
[[jobs]]
job_index = 8
price = "$0.02"
mode = "public_paid"
route = "GET /weather/{city}"
`;

const jobgate = startBeforeAll(() =>
  startEmbeddedJobgate({ config: `${SALES_CONFIG}${CLOSED_FACILITATOR}${JOBS}` }),
);

/** Headers of HTTP itself. */
const IGNORED = new Set([
  "date",
  "x-request-id",
  "connection",
  "keep-alive",
  "content-length",
  "transfer-encoding",
]);

/** Replaces what differs each time, such as the seconds that are left of an offer for one request. */
function normal(text: string): string {
  return text
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replaceAll(/"asset":"0x[0-9a-fA-F]{40}"/g, '"asset":"ASSET"')
    .replaceAll(/"X-CHAIN-CALL-ID": "\d+"/g, '"X-CHAIN-CALL-ID": "ID"')
    .replaceAll(/0x[0-9a-fA-F]{64,}|\b[0-9a-f]{64}\b/g, "HEX")
    .replaceAll(/\b1[789]\d{8}(\d{3})?\b/g, "TIME")
    .replaceAll(/"maxTimeoutSeconds":29\d\b/g, '"maxTimeoutSeconds":300')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/"(sealedOffer|access_token)":"[^"]+"/g, '"$1":"VALUE"');
}

function decoded(name: string, value: string): unknown {
  if (name !== "payment-required" && name !== "payment-response" && name !== "x-payment-response")
    return value;
  return JSON.parse(Buffer.from(value, "base64").toString());
}

async function record(name: string, url: string, init: RequestInit = {}): Promise<string> {
  const answer = await fetch(url, init);
  const headers = [...answer.headers]
    .filter(([header]) => !IGNORED.has(header))
    .map(([header, value]) => `${header}: ${normal(JSON.stringify(decoded(header, value)))}`);
  return [`# ${name}`, answer.status, ...headers, normal(await answer.text()), ""].join("\n");
}

const post = (body: string, headers: Readonly<Record<string, string>> = {}): RequestInit => ({
  method: "POST",
  body,
  headers,
});
const CITY = '{"city":"Paris"}';

test("A request without a payment, and each list, is answered as recorded", async () => {
  const base = `${jobgate.x402Url}/x402/jobs/1`;
  const records: string[] = [];
  for (const job of [0, 1, 2, 3, 4, 5, 6, 7, 9]) {
    records.push(await record(`POST job ${job}`, `${base}/${job}`, post(CITY)));
    records.push(await record(`GET job ${job}`, `${base}/${job}`));
    records.push(await record(`price of job ${job}`, `${base}/${job}/price`));
    records.push(await record(`dry run of job ${job}`, `${base}/${job}/auth-dry-run`, post(CITY)));
  }
  records.push(await record("GET route", `${jobgate.x402Url}/weather/Paris`));
  for (const path of ["/openapi.json", "/.well-known/x402", "/llms.txt", "/x402/jobs"])
    records.push(await record(path, `${jobgate.x402Url}${path}`));
  await expect(records.join("\n")).toMatchFileSnapshot("../fixtures/recorded/unpaid.txt");
});

test("Each refusal of a payment is answered as recorded", async () => {
  const base = `${jobgate.x402Url}/x402/jobs/1`;
  const records: string[] = [];
  const account = accounts.payer;
  for (const job of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
    const url = job === 8 ? `${jobgate.x402Url}/weather/Paris` : `${base}/${job}`;
    const send = async (name: string, headers: Readonly<Record<string, string>>, body = CITY) => {
      const request = job === 8 ? { headers } : post(body, headers);
      records.push(await record(`job ${job}, ${name}`, url, request));
    };
    await send("no JSON", { "payment-signature": "e" });
    if (job === 7) continue;
    const offer = await offerOf(url, job);
    const v2 = await signV2Payment({ offer: offer.v2, account });
    const cheap = await signV2Payment({ offer: offer.v2, account, authorization: { value: "1" } });
    const late = await signV2Payment({ offer: offer.v2, account, authorization: { validBefore: "1" } });
    await send("version 2", v2.headers);
    await send("less than the price", cheap.headers);
    await send("expired", late.headers);
    await send("with an identifier", v2PaymentHeaders(withIdentifier(v2.payload, "an-identifier-0001")));
    await send("both versions", { ...v2.headers, "x-payment": "e" });
    if (offer.v1.accepts?.length) {
      const { headers } = await signV1Payment({ offer: offer.v1, account });
      await send("version 1", headers);
    }
    const claimed = { ...v2.headers, "X-CHAIN-CALLER": account.address };
    await send("caller", claimed);
    await send("caller and signature", { ...claimed, "X-CHAIN-CALLER-SIG": `0x${"11".repeat(65)}` });
    await send("callback", { ...v2.headers, "callback-url": "http://127.0.0.1/" });
    if (job !== 8) await send("no input", v2.headers, "[]");
  }
  await expect(records.join("\n")).toMatchFileSnapshot("../fixtures/recorded/refused.txt");
});

async function offerOf(url: string, job: number): Promise<Offer> {
  if (job !== 8) return requestOffer(url, CITY);
  const answer = await fetch(url);
  const header = answer.headers.get("payment-required") ?? "";
  return { v2: decodePaymentRequiredHeader(header), v1: (await answer.json()) as Offer["v1"] };
}

test("A purchase is answered, and its JobCall made, as recorded", async () => {
  const parts = await startPaidParts();
  const { address, name, version } = parts.usdc;
  const sold = SALES_CONFIG.replace("http://127.0.0.1:9", parts.anvil.rpcUrl).replace(
    'token = "USDC"\nnetwork = "base-sepolia"',
    `network = "eip155:${parts.anvil.chainId}"
asset = "${address}"
symbol = "USDC"
decimals = 6
currency = "USD"
transfer_method = "eip3009"
eip3009_name = "${name}"
eip3009_version = "${version}"`,
  );
  const paid = await startEmbeddedJobgate({
    config: `${sold}[[x402.facilitators]]\nurl = "${parts.facilitator.url}"\n${JOBS}`,
  });
  const runner = makeRunnerClient({ address: paid.runnerAddress });
  try {
    const calls = runner.subscribe({ subscriber: "recorder" });
    calls.on("error", () => undefined);
    const records: string[] = [];
    const nextCall = () =>
      new Promise((resolve, reject) => {
        calls.once("data", ({ body, metadata, jobId, attempt }) =>
          resolve({ body: Buffer.from(body).toString(), metadata, jobId: String(jobId), attempt }),
        );
        calls.once("error", reject);
      });
    const buy = async (job: number, sign: (offer: Offer) => Promise<object>) => {
      const url = `${paid.x402Url}/x402/jobs/1/${job}`;
      const headers = (await sign(await offerOf(url, job))) as Record<string, string>;
      const call = nextCall();
      const answer = await record(`buys job ${job}`, url, post(CITY, headers));
      expect(answer).toContain("\n202\n");
      records.push(answer, normal(JSON.stringify(await call, null, 1)), "");
    };
    const account = accounts.payer;
    const v2 = async (offer: Offer) => (await signV2Payment({ offer: offer.v2, account })).headers;
    for (const job of [0, 4, 5, 6]) await buy(job, v2);
    await buy(3, async (offer) => {
      const { payload } = await signV2Payment({ offer: offer.v2, account });
      return v2PaymentHeaders(withIdentifier(payload, "an-identifier-0001", true));
    });
    await buy(0, async (offer) => (await signV1Payment({ offer: offer.v1, account })).headers);
    await expect(records.join("\n")).toMatchFileSnapshot("../fixtures/recorded/bought.txt");
    calls.cancel();
  } finally {
    runner.close();
    await paid.stop();
    await parts.stop();
  }
});
