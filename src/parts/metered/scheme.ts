import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import { parseEvmAddress } from "../../core/addresses.ts";
import type { CeilingScheme } from "../../x402/wire/offer.ts";

type SchemeArguments = ConstructorParameters<typeof UptoEvmScheme>;

/** The scheme `upto` of x402. Its payers sign the address of the facilitator, and no other account can settle. */
export const UPTO: CeilingScheme = {
  name: "upto",
  extraFor: (facilitatorAddress) => ({ facilitatorAddress }),
  facilitatorAddressIn(extra) {
    const address = String(extra?.facilitatorAddress);
    return parseEvmAddress(address).kind === "address" ? address : undefined;
  },
  settledBy: (signer, options) => new UptoEvmScheme(...([signer, options] as SchemeArguments)),
};
