// Pays one request with the official client of x402 version 1 and prints the outcome as one line of JSON.
//   node pay.mjs URL PRIVATE_KEY MAX_TOKEN_UNITS [BODY]
import { privateKeyToAccount } from "viem/accounts";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";

const [url, privateKey, maxTokenUnits, body = ""] = process.argv.slice(2);
if (maxTokenUnits === undefined) {
  console.error("usage: node pay.mjs URL PRIVATE_KEY MAX_TOKEN_UNITS [BODY]");
  process.exit(2);
}

try {
  const pay = wrapFetchWithPayment(fetch, privateKeyToAccount(privateKey), BigInt(maxTokenUnits));
  const response = await pay(url, { method: "POST", body });
  const header = response.headers.get("x-payment-response");
  const text = await response.text();
  const settlement = header === null ? null : decodeXPaymentResponse(header);
  console.log(JSON.stringify({ status: response.status, body: text, settlement }));
} catch (error) {
  console.log(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }));
  process.exitCode = 1;
}
