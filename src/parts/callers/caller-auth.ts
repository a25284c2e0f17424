import { isAccountSignature, recoverSigner } from "../../chain/account-signature.ts";
import type { JobRestriction } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { OneTimeNonce } from "../../core/payment.ts";
import type { JobRequest } from "../../http/request.ts";
import type { PaymentJournal } from "../../store/contract/payment-journal.ts";
import type { PurchaseNonce } from "../../x402/settlement/settlement.ts";
import type { CallerChain } from "./caller-chain.ts";
import { readCaller, readCallerExpiry, readCallerNonce, readCallerSignature } from "./headers.ts";
import { callerClaimHash } from "./signature.ts";

/** A caller who may run a restricted job. */
export interface AuthorizedCaller {
  /** Lower case. */
  readonly caller: `0x${string}`;
  /** Nonce that is used up with the payment. Only delegated callers have a nonce. */
  readonly nonce?: PurchaseNonce;
}

interface CallerRequest {
  readonly request: JobRequest;
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. A delegated caller signs this hash instead of the body's hash. */
  readonly requestHash: string | undefined;
  /** Lower case; the caller of a `payer_is_caller` job. */
  readonly payer: `0x${string}`;
}

interface Parts {
  readonly chain: CallerChain;
  readonly journal: Pick<PaymentJournal, "isNonceUsed">;
  readonly clock: Clock;
}

/** Authorization of the callers of restricted jobs. */
export class CallerAuth {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Checks a restricted job's caller, without using up anything.
   * @throws GatewayError for each refusal, in the order of the contract
   */
  async authorize(job: JobKey, restriction: JobRestriction, asked: CallerRequest): Promise<AuthorizedCaller> {
    const authorized =
      restriction.authMode === "payer_is_caller"
        ? { caller: asked.payer }
        : await this.#readDelegatedCaller(job, restriction, asked);
    if (!(await this.#parts.chain.isPermitted(restriction, job.serviceId, authorized.caller))) {
      throw new GatewayError(
        "caller_not_permitted",
        `${authorized.caller} may not run this job: its service's owner has to permit it first.`,
      );
    }
    return authorized;
  }

  async #readDelegatedCaller(
    { serviceId, jobIndex }: JobKey,
    restriction: JobRestriction,
    { request, body, requestHash }: CallerRequest,
  ): Promise<AuthorizedCaller> {
    const caller = readCaller(request);
    const signature = readCallerSignature(request);
    if (!isAccountSignature(signature)) {
      await requireContract(signature, () => this.#parts.chain.isContract(restriction, caller));
    }
    const nonce = readCallerNonce(request);
    const expiry = readCallerExpiry(request, this.#parts.clock());

    const hash = await callerClaimHash({ serviceId, jobIndex, body, requestHash, nonce, expiry });
    if ((await recoverSigner(hash, signature)) !== caller) {
      await requireContract(signature, () =>
        this.#parts.chain.approvesSignature(restriction, caller, hash, signature),
      );
    }

    const expiresAt = Number(expiry);
    if (this.#parts.clock() >= expiresAt * 1000) {
      throw new GatewayError("signature_expired", "X-CHAIN-CALLER-EXPIRY has passed: sign with a later one.");
    }
    const claimed: OneTimeNonce = { key: `${caller} ${serviceId} ${jobIndex} ${nonce}`, expiresAt };
    if (await this.#parts.journal.isNonceUsed(claimed)) {
      throw new GatewayError(
        "signature_replay",
        "This caller has used this nonce for this job before: sign with a new one.",
      );
    }
    return { caller, nonce: { nonce: claimed, refusal: usedBefore } };
  }
}

/** Makes the refusal of a nonce that another purchase has used since it was checked. */
function usedBefore(): GatewayError {
  return new GatewayError(
    "signature_replay",
    "The nonce of the signature was used before: sign with a new one.",
  );
}

/**
 * Accepts a signature that is not the caller's own if the caller's contract approves it (ERC-1271). A chain that cannot
 * be reached never makes a signature valid; the refusal only says that the client may try again.
 */
async function requireContract(signature: `0x${string}`, ask: () => Promise<boolean>): Promise<void> {
  let approved: boolean;
  try {
    approved = await ask();
  } catch (cause) {
    throw signatureRefusal(
      signature,
      " The chain cannot show now whether the caller's contract approves it.",
      {
        cause,
        details: { retryable: true },
      },
    );
  }
  if (!approved) throw signatureRefusal(signature, "");
}

function signatureRefusal(
  signature: `0x${string}`,
  doubt: string,
  options: ConstructorParameters<typeof GatewayError>[2] = {},
): GatewayError {
  return isAccountSignature(signature)
    ? new GatewayError(
        "signature_mismatch",
        `X-CHAIN-CALLER-SIG is not the caller's signature over this service, job, body, nonce and expiry.${doubt}`,
        options,
      )
    : new GatewayError(
        "invalid_signature",
        `X-CHAIN-CALLER-SIG must be 65 bytes in hex, with v 27, 28, 0 or 1 and a low s.${doubt}`,
        options,
      );
}
