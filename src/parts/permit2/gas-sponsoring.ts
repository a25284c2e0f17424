const address = (description: string) => ({ type: "string", pattern: "^0x[a-fA-F0-9]{40}$", description });
const decimal = (description: string) => ({ type: "string", pattern: "^[0-9]+$", description });
const hex = (description: string) => ({ type: "string", pattern: "^0x[a-fA-F0-9]+$", description });

const ASSET = address("The address of the ERC-20 token contract.");
const SPENDER = address("The address of the spender (Canonical Permit2).");
const VERSION = {
  type: "string",
  pattern: "^[0-9]+(\\.[0-9]+)*$",
  description: "Schema version identifier.",
};

/**
 * x402's extensions by which a facilitator gives Permit2 the payer's approval, so that the payer needs no coins. The client
 * fills in the fields that its facilitator reads. The declaration is copied from the official library, which is too large to
 * load for it.
 */
export const GAS_SPONSORING: Readonly<Record<string, { readonly info: object; readonly schema: object }>> = {
  eip2612GasSponsoring: declaration(
    "The facilitator accepts EIP-2612 gasless Permit to `Permit2` canonical contract.",
    {
      from: address("The address of the sender."),
      asset: ASSET,
      spender: SPENDER,
      amount: decimal("The amount to approve (uint256). Typically MaxUint."),
      nonce: decimal("The current nonce of the sender."),
      deadline: decimal("The timestamp at which the signature expires."),
      signature: hex("The 65-byte concatenated signature (r, s, v) as a hex string."),
      version: VERSION,
    },
  ),
  erc20ApprovalGasSponsoring: declaration(
    "The facilitator broadcasts a pre-signed ERC-20 approve() transaction to grant Permit2 allowance.",
    {
      from: address("The address of the sender (token owner)."),
      asset: ASSET,
      spender: SPENDER,
      amount: decimal("The amount approved (uint256). Always MaxUint256."),
      signedTransaction: hex("The RLP-encoded signed EIP-1559 transaction as a hex string."),
      version: VERSION,
    },
  ),
};

function declaration(description: string, properties: Readonly<Record<string, object>>) {
  return {
    info: { description, version: "1" },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties,
      required: Object.keys(properties),
    },
  };
}
