import type { Network, PaymentRequired } from "@x402/core/types";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { oneSpelling } from "../../core/payment.ts";
import type { HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse } from "../../http/response.ts";
import type { NonceLedger } from "../../store/contract/call-lookup.ts";
import type { AccessTokens, PayerProof, ProofPurpose, ProvenPayer } from "../../x402/calls/access-tokens.ts";
import type { AccountProof } from "../../x402/methods/method.ts";
import type { ClientLimits } from "../../x402/purchase/client-limits.ts";
import { encodeHeader } from "../../x402/wire/payment-header.ts";
import type { AccountContracts } from "./account-contracts.ts";
import { contractQuestion, EVM_SIGN_IN, isEvmNetwork } from "./evm-sign-in.ts";
import { LIFETIME_MS, SignInChallenges } from "./sign-in-challenges.ts";
import { carriesSignIn, readSignIn, SIGN_IN, type SignInMessage, signInText } from "./sign-in-message.ts";

/**
 * Seconds for which a used nonce is remembered after its challenge expires, because the clock of another replica can be slow.
 */
const MARGIN_SECS = 600;

const NOTHING_TO_PAY = {
  scheme: SIGN_IN,
  amount: "0",
  asset: "none",
  payTo: "none",
  maxTimeoutSeconds: LIFETIME_MS / 1000,
  extra: {},
};

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  required: ["domain", "address", "uri", "version", "chainId", "type", "nonce", "issuedAt", "signature"],
};

interface Parts {
  readonly tokens: AccessTokens;
  readonly nonces: NonceLedger;
  readonly contracts: AccountContracts;
  readonly limits: Pick<ClientLimits, "countUnpaid" | "countWrongToken">;
  /** CAIP-2 networks whose accounts can sign in, with the way to sign in; undefined on EVM chains. */
  readonly networks: ReadonlyMap<string, AccountProof | undefined>;
  readonly publicUrl: string;
  readonly clock: Clock;
}

/** Lets payers prove who they are by signing a challenge, once for each request. */
export class SignIn implements PayerProof {
  readonly advice = "a payer who lost it finds it at /x402/calls";
  readonly #parts: Parts;
  readonly #challenges: SignInChallenges;
  readonly #ownCalls: ProofPurpose;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#challenges = new SignInChallenges(parts);
    this.#ownCalls = {
      url: `${new URL(parts.publicUrl).href.replace(/\/$/, "")}/x402/calls`,
      statement: "Sign in to read the calls that you paid for.",
      challengeOf: "GET /x402/calls",
    };
  }

  readonly isIn = carriesSignIn;

  /**
   * Returns the 402 with a new challenge. x402 clients expect the challenge in a 402. The official `wrapFetchWithSIWx` signs in
   * on the network of the first offer, so the 402 has offers, in a scheme that no client can pay.
   */
  challenge(): HttpResponse {
    const required: PaymentRequired = {
      x402Version: 2,
      error: `Sign in as the payer: sign the challenge, and send it in the header ${SIGN_IN.toUpperCase()}.`,
      resource: { url: this.#ownCalls.url },
      accepts: [...this.#parts.networks.keys()].map((network) => ({
        ...NOTHING_TO_PAY,
        network: network as Network,
      })),
      extensions: this.challengeFor(this.#ownCalls),
    };
    const headers = { "payment-required": encodeHeader(required) };
    const code = "sign_in_required";
    return { ...jsonResponse(402, { ...required, code }, headers), refusal: code };
  }

  challengeFor(purpose: ProofPurpose) {
    const info = this.#challenges.make(purpose);
    const supportedChains = [...this.#parts.networks].map(([chainId, accounts = EVM_SIGN_IN]) => ({
      chainId,
      type: accounts.type,
    }));
    return { [SIGN_IN]: { info, supportedChains, schema: SCHEMA } };
  }

  /**
   * Returns the payer who signed the request's challenge, and marks the challenge as used.
   * @throws GatewayError `invalid_signature`, `signature_mismatch`, `signature_expired`, `signature_replay`,
   * `permission_check_failed`, `rate_limited`
   */
  async payerOf(request: HttpRequest, purpose = this.#ownCalls): Promise<ProvenPayer> {
    const { limits, contracts } = this.#parts;
    limits.countUnpaid(request);
    const message = this.#readOwn(request, purpose);
    const accounts = this.#accountsOf(message.chainId) ?? EVM_SIGN_IN;
    const text = signInText(message, accounts);
    const payer = oneSpelling(message.address);
    const isByKey = await accounts.isSigned(text, message);
    const signedIn = { payer, network: message.chainId, isByKey };
    // The challenge is marked as used before the RPC is called. So a challenge causes one call, and a client can send few wrong
    // challenges.
    if (!isByKey) limits.countWrongToken(request);
    await this.#useUp(message);
    if (isByKey) return signedIn;
    const question = contractQuestion(text, payer, message.signature);
    if (accounts === EVM_SIGN_IN && (await contracts.approve(message.chainId, question))) return signedIn;
    throw new GatewayError(
      "signature_mismatch",
      "The account did not sign the challenge, and no contract of the account on this network approves the signature. Sign a new challenge.",
    );
  }

  /** Reads a message that answers a challenge of this gateway. */
  #readOwn(request: HttpRequest, purpose: ProofPurpose): SignInMessage {
    try {
      const message = readSignIn(request, purpose, (network) => this.#accountsOf(network));
      this.#challenges.check(message, purpose);
      return message;
    } catch (error) {
      this.#parts.limits.countWrongToken(request);
      throw error;
    }
  }

  /**
   * Returns how the accounts of a network sign in. Accounts of every EVM chain can sign in, because the network tells their
   * calls apart.
   */
  #accountsOf(network: string): AccountProof | undefined {
    return isEvmNetwork(network) ? EVM_SIGN_IN : this.#parts.networks.get(network);
  }

  /** @throws GatewayError `signature_replay` */
  async #useUp({ nonce, expirationTime }: SignInMessage): Promise<void> {
    const expiresAt = Math.ceil(Date.parse(expirationTime) / 1000) + MARGIN_SECS;
    if (await this.#parts.nonces.useNonce({ key: `${SIGN_IN} ${nonce}`, expiresAt })) return;
    throw new GatewayError("signature_replay", "The challenge was used before: sign a new one.");
  }
}
