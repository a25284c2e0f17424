import type { TokenContext, TokenMethod } from "../../config/token-method.ts";
import { isSameToken, TOKEN_PRESETS } from "../../config/token-presets.ts";
import type { TokenTable } from "../../config/x402.ts";

/** Permit2 in the configuration. */
export const permit2Tokens: TokenMethod = {
  name: "permit2",
  title: "Permit2",
  chargesPart: true,
  paysAny: true,
  check(token, context) {
    const { place, namedBy, isSoldInPart } = context;
    if (namedBy === undefined) warnOfDefault(token, context);
    // EIP-3009 cannot charge less than the payer signed.
    if (namedBy === "entry" && !isSoldInPart) warnOfChoice(token, context);
    if (token.rpcUrl === undefined) {
      place
        .at("rpc_url")
        .warn(
          "is missing, so the facilitator is believed; where Permit2 is not on the chain, some facilitators report payments that moved nothing",
        );
    }
  },
};

/** Warns that a token without a transfer method is paid by Permit2, which its payers must have approved. */
function warnOfDefault(token: TokenTable, { place }: TokenContext): void {
  const known = findWithEip3009(token);
  const expected =
    known === undefined
      ? '"eip3009" if the token has EIP-3009, or "permit2"'
      : `"eip3009", which this token has, or token = ${JSON.stringify(known.symbol)} in place of asset`;
  place
    .at("transfer_method")
    .warn(
      `is missing, so the token is paid by Permit2, which its payers must have approved; expected ${expected}`,
    );
}

/** Warns of a token that supports EIP-3009 and can only be paid by Permit2. */
function warnOfChoice(token: TokenTable, { place, tokens }: TokenContext): void {
  if (findWithEip3009(token) === undefined) return;
  const isPaidByBoth = tokens.some(
    (other) => other?.transferMethod === "eip3009" && isSameToken(other, token),
  );
  if (isPaidByBoth) return;
  place
    .at("transfer_method")
    .warn(
      'is "permit2", which the token\'s payers must have approved, although the token has EIP-3009; expected "eip3009", or the token listed again with it',
    );
}

function findWithEip3009(token: TokenTable) {
  return TOKEN_PRESETS.find((preset) => preset.hasEip3009 && isSameToken(preset, token));
}
