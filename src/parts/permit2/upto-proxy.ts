import { uptoPermit2WitnessTypes, x402UptoPermit2ProxyAddress } from "@x402/evm";
import type { X402Proxy } from "./exact-proxy.ts";

/** Contract that settles payments of the scheme `upto`, whose jobs are metered. */
export const UPTO_PROXY: X402Proxy = {
  scheme: "upto",
  address: x402UptoPermit2ProxyAddress.toLowerCase() as `0x${string}`,
  jobs: ' for jobs with charge = "used"',
  witnessTypes: uptoPermit2WitnessTypes,
  settles: {
    "0xff11e7b4": { nonce: 2, owner: 5, facilitator: 7 }, // settle(permit, amount, owner, witness, signature)
    "0x016c1748": { nonce: 7, owner: 10, facilitator: 12 }, // settleWithPermit(permit2612, permit, amount, owner, witness, signature)
  },
  ceiling: {
    refusal:
      "The transaction made a metered payment, which was charged after its job ran: it cannot be adopted.",
  },
};
