import { safeBase64Decode } from "@x402/core/utils";
import * as z from "zod";
import { parseSignatureHex } from "../../chain/account-signature.ts";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { ProofPurpose } from "../../x402/calls/access-tokens.ts";

/** x402's extension for payers who prove who they are (CAIP-122), and in upper case its header. */
export const SIGN_IN = "sign-in-with-x";
const NAME = SIGN_IN.toUpperCase();

/** Data of a challenge that the client signs and sends back as it is. */
export interface SignInChallenge {
  readonly domain: string;
  readonly uri: string;
  readonly version: string;
  readonly statement: string;
  readonly nonce: string;
  /** RFC 3339, as is `expirationTime`. */
  readonly issuedAt: string;
  readonly expirationTime: string;
}

/** A challenge with the account that claims to have signed it. */
export interface SignInMessage extends SignInChallenge {
  /** As the message spells it. */
  readonly address: string;
  /** CAIP-2. */
  readonly chainId: string;
  readonly signature: `0x${string}`;
}

/** Other fields would be lines of the message that no challenge has, so its signature would not match. */
const payload = z.object({
  domain: z.string(),
  uri: z.string(),
  version: z.string(),
  statement: z.string(),
  nonce: z.string(),
  issuedAt: z.string(),
  expirationTime: z.string(),
  address: z.string().regex(/^0x[0-9a-fA-F]{40}$/),
  chainId: z.string().regex(/^eip155:[1-9][0-9]{0,14}$/),
  type: z.literal("eip191"),
  signature: z.string(),
});

export function carriesSignIn({ headers }: HttpRequest): boolean {
  return headers[SIGN_IN] !== undefined;
}

/** @throws GatewayError `invalid_signature` */
export function readSignIn(request: HttpRequest, purpose: Pick<ProofPurpose, "challengeOf">): SignInMessage {
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
  const signature = parseSignatureHex(parsed.data.signature);
  if (signature === undefined) throw invalid("has no signature in hex");
  return { ...parsed.data, signature };
}

/** Returns the text that a wallet signs (ERC-4361). */
export function signInText(message: Omit<SignInMessage, "signature">): string {
  const { domain, address, statement, uri, version, chainId, nonce, issuedAt, expirationTime } = message;
  return `${domain} wants you to sign in with your Ethereum account:
${address}

${statement}

URI: ${uri}
Version: ${version}
Chain ID: ${chainId.slice("eip155:".length)}
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
