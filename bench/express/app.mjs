import { HTTPFacilitatorClient } from "@x402/core/server";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";
import { privateKeyToAccount } from "viem/accounts";

/*
 * An Express app with GET /paid. It sells the route by the official middleware if it is given the terms, as JSON. Prints
 * its URL.
 */

const [terms] = process.argv.slice(2);
const app = express();
if (terms !== undefined) {
  const { facilitatorUrl: url, network, payTo, price, authorizerKey } = JSON.parse(terms);
  const server = new x402ResourceServer(new HTTPFacilitatorClient({ url }));
  // With the key of an authorizer the route is sold by vouchers of payment channels.
  const channels =
    authorizerKey &&
    new BatchSettlementEvmScheme(payTo, { receiverAuthorizerSigner: privateKeyToAccount(authorizerKey) });
  server.register(network, channels ?? new ExactEvmScheme());
  const scheme = channels?.scheme ?? "exact";
  app.use(paymentMiddleware({ "GET /paid": { accepts: { scheme, network, payTo, price } } }, server));
}
app.get("/paid", (_request, response) => response.json({ city: "Paris", temperature: 21 }));
const listener = app.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}`));
