import assert from "node:assert/strict";
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import { formatUnits } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { payingFetch } from "../test/helpers/clients.ts";
import type { Runner } from "../test/helpers/runner.ts";
import { balances } from "./balances.ts";
import type { Sandbox } from "./demo.ts";
import { printJobCall } from "./job-call.ts";
import type { Narrator } from "./narrator.ts";

const BODY = "an order from a paying client";

/** Body of the paid route's 202. */
interface Accepted {
  readonly access_token: string;
  readonly call_id: number;
}

/** Pays for one job, then checks the JobCall, the balances and the result. */
export async function payForJob(options: {
  readonly narrator: Narrator;
  readonly sandbox: Sandbox;
  readonly runner: Runner;
}): Promise<void> {
  const { narrator, sandbox, runner } = options;
  const { job_url: url, payer_key: privateKey } = sandbox;
  const before = await balances(sandbox);

  narrator.step("A client pays for one job, with the official @x402/fetch");
  const offeredAmounts: bigint[] = [];
  const pay = payingFetch({
    account: { ...privateKeyToAccount(privateKey), privateKey },
    network: "eip155:84532",
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const paid = request.headers.has("payment-signature");
      narrator.say(`POST ${new URL(request.url).pathname}  ${paid ? "with" : "without"} PAYMENT-SIGNATURE`);
      const response = await fetch(request);
      const offer = response.headers.get("payment-required");
      if (offer !== null) offeredAmounts.push(printOffer(narrator, offer));
      return response;
    },
  });
  const response = await pay(url, { method: "POST", body: BODY });
  const text = await response.text();
  assert.equal(response.status, 202, `the payment was refused: ${text}`);
  const accepted = JSON.parse(text) as Accepted;
  const settlement = response.headers.get("payment-response");
  assert.ok(settlement, "the 202 has no PAYMENT-RESPONSE");
  narrator.say("202, accepted and paid:");
  narrator.table({
    ...texts(accepted),
    "PAYMENT-RESPONSE": JSON.stringify(decodePaymentResponseHeader(settlement)),
  });

  narrator.step("The runner got the job");
  const call = (await runner.waitFor(1)).find(({ callId }) => Number(callId) === accepted.call_id);
  assert.ok(call, `the runner did not get call ${accepted.call_id}`);
  printJobCall(narrator, call);
  assert.equal(Buffer.from(call.body).toString(), BODY);
  narrator.check("one JobCall, with the request's body and the client's call ID");

  narrator.step("The money moved");
  const after = await balances(sandbox);
  narrator.table({
    payer: movement(before.payer, after.payer),
    payee: movement(before.payee, after.payee),
  });
  assert.equal(offeredAmounts.length, 1, "expected one offer");
  assert.equal(after.payee - before.payee, offeredAmounts[0], "the payee did not get what was offered");
  assert.equal(before.payer - after.payer, offeredAmounts[0], "the payer did not pay what was offered");
  narrator.check(`the payee has exactly the offered ${offeredAmounts[0]} units more`);

  narrator.step("The client fetches the result, with its access token");
  const resultUrl = new URL(`/x402/calls/${accepted.call_id}/result`, url);
  const result = await fetchResult(resultUrl, accepted.access_token);
  narrator.say(`GET /x402/calls/${accepted.call_id}/result  returns: ${result}`);
  assert.equal(result, BODY.toUpperCase());
  narrator.check("it is the runner's result");
}

/** Prints the offer and returns its amount in token units. */
function printOffer(narrator: Narrator, header: string): bigint {
  const option = decodePaymentRequiredHeader(header).accepts[0];
  assert.ok(option, "the 402 offers nothing");
  narrator.say("402, with an offer:");
  narrator.table(texts(option));
  return BigInt(option.amount);
}

function texts(object: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [
      name,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  );
}

function movement(before: bigint, after: bigint): string {
  const difference = after - before;
  const sign = difference < 0n ? "" : "+";
  const usdc = (units: bigint): string => formatUnits(units, 6);
  return `${usdc(before)} → ${usdc(after)} USDC  (${sign}${usdc(difference)} USDC, ${sign}${difference} units)`;
}

/** Polls for the result, which exists once the runner has acked. */
async function fetchResult(url: URL, accessToken: string): Promise<string> {
  const deadline = Date.now() + 5000;
  for (;;) {
    const response = await fetch(url, { headers: { authorization: `Bearer ${accessToken}` } });
    const text = await response.text();
    if (response.ok) return text;
    assert.ok(Date.now() < deadline, `no result: ${response.status} ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
