import { EIP3009 } from "../../core/transfer-method.ts";

/** What an offer's `extra` says of a token. */
interface OfferedToken {
  /** EIP-712 domain. Absent: the token has none. */
  readonly eip3009?: { readonly name: string; readonly version: string } | undefined;
  readonly transferMethod: string;
}

/** Returns the name of a transfer method where clients read it; undefined for EIP-3009, which goes without saying. */
export function offeredMethod({ transferMethod }: Pick<OfferedToken, "transferMethod">): string | undefined {
  return transferMethod === EIP3009.name ? undefined : transferMethod;
}

/** Returns what an offer's `extra` says of a token: its EIP-712 domain, and its transfer method. */
export function extraOf(token: OfferedToken): Record<string, string> {
  const assetTransferMethod = offeredMethod(token);
  return { ...token.eip3009, ...(assetTransferMethod !== undefined && { assetTransferMethod }) };
}
