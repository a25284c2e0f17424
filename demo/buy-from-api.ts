import assert from "node:assert/strict";
import { decodePaymentResponseHeader } from "@x402/core/http";
import { privateKeyToAccount } from "viem/accounts";
import { payingFetch } from "../test/helpers/clients.ts";
import { type HttpListener, listenHttp } from "../test/helpers/http-listener.ts";
import { balances } from "./balances.ts";
import type { Sandbox } from "./demo.ts";
import type { Narrator } from "./narrator.ts";

const ANSWER = "sunny";
/** Units of a cent. */
const CENT = 10_000n;

/** Starts an HTTP API that knows nothing of payments, and has one city. */
export function startApi(): Promise<HttpListener> {
  return listenHttp({
    handler: ({ url }, response) =>
      void (url === "/weather/Paris" ? response.end(ANSWER) : response.writeHead(404).end()),
  });
}

/** Buys an answer of the API, and asks it for one that it does not have. */
export async function buyFromApi({
  narrator,
  sandbox,
}: {
  readonly narrator: Narrator;
  readonly sandbox: Sandbox;
}): Promise<void> {
  const { api_url: url, payer_key: privateKey } = sandbox;
  const pay = payingFetch({
    account: { ...privateKeyToAccount(privateKey), privateKey },
    network: "eip155:84532",
  });
  const before = await balances(sandbox);

  narrator.step("A client buys an answer of an HTTP API that knows nothing of payments");
  narrator.say("GET /weather/Paris");
  const bought = await pay(`${url}/weather/Paris`);
  const text = await bought.text();
  assert.equal(bought.status, 200, `the payment was refused: ${text}`);
  const settlement = bought.headers.get("payment-response");
  assert.ok(settlement, "the answer has no PAYMENT-RESPONSE");
  narrator.say(`200, ${text}`);
  narrator.table({ "PAYMENT-RESPONSE": JSON.stringify(decodePaymentResponseHeader(settlement)) });
  assert.equal(text, ANSWER);
  const after = await balances(sandbox);
  assert.equal(after.payee - before.payee, CENT, "the payee did not get a cent");
  narrator.check("it is the API's own answer, and the payee has a cent more");

  narrator.say("GET /weather/Atlantis");
  const missing = await pay(`${url}/weather/Atlantis`);
  assert.equal(missing.status, 404);
  assert.deepEqual(await balances(sandbox), after, "an answer that is none was charged");
  narrator.check("its 404 costs nothing");
}
