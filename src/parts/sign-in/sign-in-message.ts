import { safeBase64Decode } from "@x402/core/utils";
import * as z from "zod";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { ProofPurpose } from "../../x402/calls/access-tokens.ts";
import type { AccountProof } from "../../x402/methods/method.ts";

/** x402's extension by which payers prove their identity (CAIP-122). In upper case, the name of its header. */
export const SIGN_IN = "sign-in-with-x";
const NAME = SIGN_IN.toUpperCase();

/** Data of a challenge that the client signs and sends back unchanged. */
export interface SignInChallenge {
  readonly domain: string;
  readonly uri: string;
  readonly version: string;
  readonly statement: string;
  readonly nonce: string;
  /** Time in RFC 3339, like `expirationTime`. */
  readonly issuedAt: string;
  readonly expirationTime: string;
}

/** A challenge with the account that claims to have signed it. */
export interface SignInMessage extends SignInChallenge {
  /** Address with the message's spelling. */
  readonly address: string;
  /** CAIP-2. */
  readonly chainId: string;
  readonly signature: string;
}

/** Other fields are ignored. They would be lines of the message that no challenge has, so the signature would not match. */
const payload = z.object({
  domain: z.string(),
  uri: z.string(),
  version: z.string(),
  statement: z.string(),
  nonce: z.string(),
  issuedAt: z.string(),
  expirationTime: z.string(),
  address: z.string(),
  chainId: z.string(),
  type: z.string(),
  signature: z.string(),
});

export function carriesSignIn({ headers }: HttpRequest): boolean {
  return headers[SIGN_IN] !== undefined;
}

/**
 * @param accountsOf returns how the accounts of a network sign in; undefined if they cannot sign in
 * @throws GatewayError `invalid_signature`
 */
export function readSignIn(
  request: HttpRequest,
  purpose: Pick<ProofPurpose, "challengeOf">,
  accountsOf: (network: string) => AccountProof | undefined,
): SignInMessage {
  const invalid = (what: string) => invalidFor(purpose, what);
  const [value = "", ...more] = request.headerValues(SIGN_IN);
  if (more.length > 0) throw invalid("was sent more than once");
  let json: unknown;
  try {
    json = JSON.parse(safeBase64Decode(value));
  } catch {
    throw invalid("is not JSON in base64");
  }
  const parsed = payload.safeParse(json);
  const field = parsed.error?.issues[0]?.path.join(".");
  if (!parsed.success) throw invalid(`has no valid ${field || "object"}`);
  const { chainId, type, address, signature } = parsed.data;
  const accounts = accountsOf(chainId);
  if (accounts === undefined) throw invalid("has no valid chainId");
  if (type !== accounts.type) throw invalid("has no valid type");
  if (!accounts.isAddress(address)) throw invalid("has no valid address");
  if (!accounts.isSignature(signature)) throw invalid("has no valid signature");
  return parsed.data;
}

/** Returns the text that a wallet signs (ERC-4361, and the same for accounts on other networks). */
export function signInText(
  message: Omit<SignInMessage, "signature">,
  { accounts }: Pick<AccountProof, "accounts">,
): string {
  const { domain, address, statement, uri, version, chainId, nonce, issuedAt, expirationTime } = message;
  return `${domain} wants you to sign in with your ${accounts} account:
${address}

${statement}

URI: ${uri}
Version: ${version}
Chain ID: ${chainId.slice(chainId.indexOf(":") + 1)}
Nonce: ${nonce}
Issued At: ${issuedAt}
Expiration Time: ${expirationTime}`;
}

function invalidFor({ challengeOf }: Pick<ProofPurpose, "challengeOf">, what: string): GatewayError {
  return new GatewayError(
    "invalid_signature",
    `${NAME} ${what}: sign the challenge of ${challengeOf}, and send it back with address, chainId, type and signature.`,
  );
}
