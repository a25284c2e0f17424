// Buys the routes of an API with a client made from the seller's openapi.json, and prints each answer as a line of JSON.
//
//   KEY=0x… SELLER=http://… node buy.mjs
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import createClient from "openapi-fetch";
import { privateKeyToAccount } from "viem/accounts";

const account = privateKeyToAccount(/** @type {`0x${string}`} */ (process.env.KEY));
const x402 = new x402Client().register("eip155:*", new ExactEvmScheme(account));
const options = { baseUrl: process.env.SELLER ?? "", fetch: wrapFetchWithPayment(fetch, x402) };
/** @type {import("openapi-fetch").Client<import("./seller.d.ts").paths>} */
const seller = createClient(options);

const text = { text: "a long text" };
const form = new FormData();
form.append("file", new Blob(["content"]), "a.txt");
form.append("title", "a title");

print(await seller.GET("/health"));
const weather = { path: { city: "Oslo" }, query: { units: "kelvin" } };
print(await seller.GET("/weather/{city}", { params: weather }));
print(await seller.POST("/summaries", { body: text }));
print(
  await seller.POST("/uploads", {
    body: Object.fromEntries(form),
    bodySerializer: () => form,
  }),
);
print(await seller.POST("/notes", { body: text }));
print(await seller.PUT("/notes/{number}", { params: { path: { number: 1 } }, body: text }));
const report = await seller.GET("/reports/annual.pdf", { parseAs: "arrayBuffer" });
print({ ...report, data: { bytes: report.data?.byteLength } });
print(await seller.GET("/reports/"));
const failed = await seller.GET("/faults/death");
print({ ...failed, data: { code: failed.error?.code, charged: failed.error?.charged } });

/** @param {{ readonly data?: unknown, readonly response: Response }} answer */
function print({ data, response }) {
  console.log(JSON.stringify({ status: response.status, data }));
}
