import type { Method } from "../../x402/methods/method.ts";
import { Permit2Authorization } from "./authorization.ts";
import { permit2Tokens } from "./config.ts";
import { findChainProblem } from "./contracts.ts";
import { payerFunds } from "./funds.ts";
import { GAS_SPONSORING } from "./gas-sponsoring.ts";
import { pays, permitPayload, readSettlable, recoverSigner } from "./permit.ts";
import { paymentsIn, senderOf, whyNotExact } from "./proxy-calls.ts";

const { name, title, chargesPart } = permit2Tokens;

/**
 * Permit2: the payer has approved the contract for a token, and signs the spender, the amount and the recipient of each
 * payment.
 */
export const PERMIT2: Method = {
  ...{ name, title, chargesPart },
  extensions: GAS_SPONSORING,
  owns: (payload) => "permit2Authorization" in payload,
  payload: { schema: permitPayload, kind: "a Permit2 authorization" },
  pays,
  compared: "token, its spender, its recipient",
  recoverSigner,
  authorizationOf: (payment) => new Permit2Authorization(payment),
  collectedBy: (collector, payment) => new Permit2Authorization(payment, collector),
  paymentsIn,
  whyNotExact,
  findChainProblem,
  funds: payerFunds,
  readSettlable,
  settledExtensions: ["eip2612GasSponsoring"],
  senderOf,
};
