// Finds a job at an origin, buys one run of it with the official x402 client and prints the result.
//
//   PAYER_KEY=0x… node buy.js ORIGIN [NAME [BODY]]
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const MAX_TRIES = 60;
const [origin, name, text] = process.argv.slice(2);

const { jobs } = await (await fetch(new URL("/x402/jobs", origin))).json();
const job = jobs.find((job) =>
  name ? job.name === name : job.mode === "public_paid" && job.settlement_options[0],
);
if (!job?.settlement_options[0]) throw new Error(`${origin} sells no such job`);
const [{ network, amount, symbol, decimals }] = job.settlement_options;
const { content_type: type = "text/plain", schema, example } = job.input ?? {};
console.error(`${job.name}: ${job.description ?? "no description"}`);
console.error(`${amount / 10 ** decimals} ${symbol} on ${network}, input: ${JSON.stringify(schema) ?? type}`);

// Kept over all tries. If an answer is lost, the seller knows the purchase by it and takes no second payment.
const id = randomUUID();
const client = new x402Client()
  .register(network, new ExactEvmScheme(privateKeyToAccount(process.env.PAYER_KEY)))
  .onBeforePaymentCreation(async ({ paymentRequired }) => {
    appendPaymentIdentifierToExtensions(paymentRequired.extensions ?? {}, id);
  });
const pay = wrapFetchWithPayment(fetch, client);
const headers = { "content-type": type, prefer: "wait=30" };
const body = text ?? (type.includes("json") ? JSON.stringify(example) : example) ?? "";

let answer = await untilItIsOk(() => pay(job.x402_endpoint, { method: "POST", body, headers }));
if (answer.status === 202) {
  const { links, access_token } = await answer.json();
  const call = { headers: { authorization: `Bearer ${access_token}` } };
  answer = await untilItIsOk(() => fetch(new URL(links.result, job.x402_endpoint), call));
}
console.log(await answer.text());

async function untilItIsOk(send) {
  for (let tries = 1; ; tries++) {
    try {
      const answer = await send();
      if (answer.ok) return answer;
      const { error, retryable } = await answer.json();
      if (!retryable || tries === MAX_TRIES) throw new Error(`${answer.status}: ${error}`);
    } catch (error) {
      const isLostAnswer = error instanceof TypeError;
      if (!isLostAnswer || tries === MAX_TRIES) throw error;
    }
    await sleep(1_000);
  }
}
