import { authorizationTypes } from "@x402/evm";
import { type Address, keccak256, toBytes } from "viem";
import type { TestAccount } from "./accounts.ts";
import { base64Json } from "./clients.ts";
import type { SignedAuthorization } from "./usdc.ts";

/** A challenge as clients read and return it. */
export type MppChallenge = Readonly<Record<string, string>> & {
  readonly id: string;
  readonly realm: string;
  readonly method: string;
  readonly request: string;
};

/** Payment methods of MPP. */
export type MppMethodName = "evm" | "blueprintevm";

/** A payment with what it was made of. */
export interface MppPayment {
  readonly headers: Readonly<Record<string, string>>;
  readonly credential: {
    readonly challenge: MppChallenge;
    readonly source: string;
    readonly payload: unknown;
  };
  readonly signed: SignedAuthorization;
}

/** Asks for the challenges at a URL: bound to the body, or, without one, to none. */
export async function requestChallenges(url: string, body?: string): Promise<readonly MppChallenge[]> {
  const response = await fetch(url, body === undefined ? {} : { method: "POST", body });
  const header = response.headers.get("www-authenticate");
  if (response.status !== 402 || header === null)
    throw new Error(`no challenge from ${url}: ${response.status}`);
  return readChallenges(header);
}

export function readChallenges(header: string): readonly MppChallenge[] {
  return header
    .split(/(?:^|, )Payment /)
    .slice(1)
    .map((text) => {
      const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
      return Object.fromEntries(pairs.map(([, name, value = ""]) => [name, value.replace(/\\(.)/g, "$1")]));
    }) as unknown as readonly MppChallenge[];
}

/** Signs the payment of a challenge. `authorization` replaces fields before they are signed. */
export async function signChallenge(options: {
  readonly challenge: MppChallenge;
  readonly account: TestAccount;
  readonly authorization?: Partial<SignedAuthorization["authorization"]>;
  /** EIP-712 domain of the token. */
  readonly domain?: { readonly name: string; readonly version: string };
  /** Changes the credential after it was signed: a forgery. */
  readonly edit?: (credential: MppPayment["credential"]) => unknown;
}): Promise<MppPayment> {
  const { challenge, account, domain = { name: "USDC", version: "2" }, edit = (same) => same } = options;
  const request = JSON.parse(Buffer.from(challenge.request, "base64url").toString());
  const { chainId = Number(request.methodDetails.network?.split(":")[1]) } = request.methodDetails;
  const expires = Math.floor(Date.parse(challenge.expires ?? "") / 1000);
  const isEvm = challenge.method === "evm";
  const authorization = {
    from: account.address,
    to: request.recipient as Address,
    value: request.amount as string,
    validAfter: "0",
    validBefore: String(expires),
    nonce: keccak256(toBytes(`${challenge.id}${isEvm ? challenge.realm : Math.random()}`)),
    ...options.authorization,
  };
  const signature = await account.signTypedData({
    domain: { ...domain, chainId, verifyingContract: request.currency as Address },
    types: authorizationTypes,
    primaryType: "TransferWithAuthorization",
    message: {
      ...authorization,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
    },
  });
  const v1 = {
    x402Version: 1,
    scheme: "exact",
    network: "base-sepolia",
    payload: { signature, authorization },
  };
  const credential = {
    challenge,
    source: `did:pkh:eip155:${chainId}:${account.address}`,
    payload: isEvm
      ? { type: "authorization", signature, ...authorization }
      : { x402_payload: base64Json(v1) },
  };
  return {
    headers: credentialHeaders(edit(credential)),
    credential,
    signed: { authorization, signature },
  };
}

export function credentialHeaders(credential: unknown): Readonly<Record<string, string>> {
  return { authorization: `Payment ${Buffer.from(JSON.stringify(credential)).toString("base64url")}` };
}

/** Reads a base64url header, such as `Payment-Receipt`. */
export function readBase64Json(value: string | null): Record<string, unknown> | undefined {
  return value === null ? undefined : JSON.parse(Buffer.from(value, "base64url").toString());
}
