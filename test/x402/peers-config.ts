import type { AcceptedToken, X402Config } from "../../src/config/config.ts";
import { toRemoteFacilitator } from "../../src/config/facilitators.ts";
import { accounts } from "../helpers/accounts.ts";
import type { Anvil } from "../helpers/anvil.ts";
import type { Token } from "../helpers/usdc.ts";

export interface PeersOptions {
  readonly anvil: Anvil;
  readonly usdc: Token;
  readonly facilitatorUrl?: string;
  readonly token?: Partial<AcceptedToken>;
  readonly jobs?: X402Config["jobs"];
}

/** A configuration whose peers are a chain and a facilitator of the test. */
export function peersConfig(options: PeersOptions & { readonly facilitatorUrl: string }): X402Config {
  const { anvil, usdc, facilitatorUrl, token, jobs } = options;
  return {
    bindAddress: { kind: "tcp", host: "127.0.0.1", port: 0 },
    publicUrl: "http://127.0.0.1",
    facilitators: [toRemoteFacilitator(facilitatorUrl)],
    facilitatorTimeoutMs: 30_000,
    quoteTtlSecs: 300,
    maxBodyBytes: 1,
    corsOrigins: ["*"],
    maxUndecided: 100_000,
    maxOpenPerPayer: 256,
    settleMarginSecs: 60,
    defaultInvocationMode: "disabled",
    acceptedTokens: [
      {
        network: "eip155:84532",
        asset: usdc.address,
        symbol: "USDC",
        decimals: 6,
        payTo: accounts.payTo.address,
        rate: { kind: "fixed", ratePerNativeUnit: "3200" },
        markupBps: 0,
        transferMethod: "eip3009",
        eip3009: { name: "USDC", version: "2" },
        rpcUrl: anvil.rpcUrl,
        confirmations: 1,
        requireOnchainConfirmation: true,
        ...token,
      },
    ],
    jobPolicies: [],
    priceSource: "map",
    jobPricing: new Map(),
    ...(jobs && { jobs }),
    limits: { maxUnpaidPerSecondPerClient: 1, maxVerifiesPerClient: 1, maxVerifies: 1 },
    parts: new Map(),
  };
}
