import type { AcceptedToken } from "../../config/config.ts";
import { EIP3009 } from "../../core/transfer-method.ts";

/** A token as offers hold it: without its RPC address, which may hold a key, because offers are stored. */
export type OfferedToken = Pick<
  AcceptedToken,
  "network" | "asset" | "symbol" | "decimals" | "payTo" | "transferMethod" | "eip3009"
>;

/** Returns what an offer holds of a token. */
export function toOfferedToken(token: OfferedToken): OfferedToken {
  const { network, asset, symbol, decimals, payTo, transferMethod, eip3009 } = token;
  return { network, asset, symbol, decimals, payTo, transferMethod, ...(eip3009 && { eip3009 }) };
}

/** Returns the name of a token's transfer method where clients read it; undefined for EIP-3009, which goes without saying. */
export function offeredMethod({ transferMethod }: Pick<OfferedToken, "transferMethod">): string | undefined {
  return transferMethod === EIP3009.name ? undefined : transferMethod;
}

/** Returns what the `extra` of an offer of x402 says of a token: its EIP-712 domain, and its transfer method. */
export function extraOf(token: {
  readonly eip3009?: OfferedToken["eip3009"] | undefined;
  readonly transferMethod: string;
}): Record<string, string> {
  const assetTransferMethod = offeredMethod(token);
  return { ...token.eip3009, ...(assetTransferMethod !== undefined && { assetTransferMethod }) };
}
