import type { Clock } from "../clock.ts";
import type { JobRestriction } from "../config/config.ts";
import { type ErrorCode, GatewayError } from "../errors.ts";
import type { HttpRequest } from "../http/http-request.ts";
import type { CallerNonce } from "../payment.ts";
import type { PaymentJournal } from "../store/store.ts";
import type { CallerChain } from "./caller-chain.ts";
import { callerClaimHash, isAccountSignature, parseSignatureHex, recoverSigner } from "./caller-signature.ts";
import type { PurchasableJob } from "./job-catalog.ts";

export interface CallerAuthOptions {
  readonly chain: CallerChain;
  readonly journal: PaymentJournal;
  readonly clock: Clock;
}

/** Someone who may run a restricted job. */
export interface AuthorizedCaller {
  /** Lower case. */
  readonly caller: `0x${string}`;
  /** Used up with the payment. Only delegated callers have one. */
  readonly nonce?: CallerNonce;
}

export interface CallerAuth {
  /**
   * Checks a restricted job's caller, without using up anything.
   * @param payer lower case; the caller of a `payer_is_caller` job
   * @throws GatewayError for each refusal
   */
  authorize(
    job: PurchasableJob,
    restriction: JobRestriction,
    request: CallerRequest,
  ): Promise<AuthorizedCaller>;
}

export interface CallerRequest {
  readonly request: HttpRequest;
  readonly body: Uint8Array;
  readonly payer: `0x${string}`;
}

const MAX_EXPIRY_AHEAD_SECS = 24 * 60 * 60;

export function createCallerAuth({ chain, journal, clock }: CallerAuthOptions): CallerAuth {
  return {
    async authorize(job, restriction, { request, body, payer }) {
      const authorized =
        restriction.authMode === "payer_is_caller"
          ? { caller: payer }
          : await readDelegatedCaller(job, restriction, request, body);
      if (!(await chain.isPermitted(restriction, job.serviceId, authorized.caller))) {
        throw new GatewayError(
          "caller_not_permitted",
          `${authorized.caller} may not run this job: its service's owner has to permit it first.`,
          { details: { service_id: job.serviceId, job_index: job.jobIndex } },
        );
      }
      return authorized;
    },
  };

  async function readDelegatedCaller(
    job: PurchasableJob,
    restriction: JobRestriction,
    request: HttpRequest,
    body: Uint8Array,
  ): Promise<AuthorizedCaller> {
    const caller = readCaller(request);
    const signature = await readSignature(request, restriction, caller);
    const nonce = readNonce(request);
    const expiry = readExpiry(request);

    const { serviceId, jobIndex } = job;
    const hash = callerClaimHash({ serviceId, jobIndex, body, nonce, expiry });
    if (
      (await recoverSigner(hash, signature)) !== caller &&
      !(await approvedByContract(restriction, caller, hash, signature))
    ) {
      throw refusal(
        "signature_mismatch",
        "X-CHAIN-CALLER-SIG is not the caller's signature over this service, job, body, nonce and expiry.",
      );
    }

    const expiresAt = checkExpiry(expiry);
    const claimed: CallerNonce = { caller, serviceId, jobIndex, nonce, expiresAt };
    if (await journal.isCallerNonceUsed(claimed)) {
      throw refusal(
        "signature_replay",
        "This caller has used this nonce for this job before: sign with a new one.",
      );
    }
    return { caller, nonce: claimed };
  }

  /** A signature that no plain account can have made is malformed, unless the caller is a contract (ERC-1271). */
  async function readSignature(
    request: HttpRequest,
    restriction: JobRestriction,
    caller: `0x${string}`,
  ): Promise<`0x${string}`> {
    const text = readHeader(request, "x-chain-caller-sig", "missing_signature", "invalid_signature");
    const signature = parseSignatureHex(text);
    if (
      signature === undefined ||
      !(isAccountSignature(signature) || (await chain.isContract(restriction, caller)))
    ) {
      throw refusal(
        "invalid_signature",
        "X-CHAIN-CALLER-SIG must be 65 bytes in hex, with v 27, 28, 0 or 1 and a low s.",
      );
    }
    return signature;
  }

  async function approvedByContract(
    restriction: JobRestriction,
    caller: `0x${string}`,
    hash: `0x${string}`,
    signature: `0x${string}`,
  ): Promise<boolean> {
    if (!(await chain.isContract(restriction, caller))) return false;
    return chain.approvesSignature(restriction, caller, hash, signature);
  }

  function checkExpiry(expiry: string): number {
    const expiresAt = Number(expiry);
    const nowSecs = Math.floor(clock() / 1000);
    if (expiresAt <= nowSecs) {
      throw refusal("signature_expired", "X-CHAIN-CALLER-EXPIRY has passed: sign with a later one.");
    }
    if (expiresAt > nowSecs + MAX_EXPIRY_AHEAD_SECS) {
      throw refusal(
        "invalid_signature_expiry",
        "X-CHAIN-CALLER-EXPIRY is more than 24 hours ahead: sign with an earlier one.",
      );
    }
    return expiresAt;
  }
}

/** The `X-CHAIN-CALLER` header. @throws GatewayError `missing_caller`, `invalid_caller` */
export function readCaller(request: HttpRequest): `0x${string}` {
  const caller = readHeader(request, "x-chain-caller", "missing_caller", "invalid_caller");
  if (!/^0x[0-9a-fA-F]{40}$/.test(caller)) {
    throw refusal("invalid_caller", "X-CHAIN-CALLER must be an address: 0x and 40 hex digits.");
  }
  return caller.toLowerCase() as `0x${string}`;
}

function readNonce(request: HttpRequest): string {
  const nonce = readHeader(
    request,
    "x-chain-caller-nonce",
    "missing_signature_nonce",
    "invalid_signature_nonce",
  );
  if (!/^[\x21-\x7e]{1,128}$/.test(nonce)) {
    throw refusal(
      "invalid_signature_nonce",
      "X-CHAIN-CALLER-NONCE must be 1 to 128 visible ASCII characters.",
    );
  }
  return nonce;
}

function readExpiry(request: HttpRequest): string {
  const expiry = readHeader(
    request,
    "x-chain-caller-expiry",
    "missing_signature_expiry",
    "invalid_signature_expiry",
  );
  if (!/^(0|[1-9][0-9]{0,14})$/.test(expiry)) {
    throw refusal("invalid_signature_expiry", "X-CHAIN-CALLER-EXPIRY must be Unix seconds as a decimal.");
  }
  return expiry;
}

function readHeader(request: HttpRequest, name: string, missing: ErrorCode, invalid: ErrorCode): string {
  const values = request.headerValues(name);
  const value = values[0];
  if (value === undefined || value === "")
    throw refusal(missing, `This job needs the header ${name.toUpperCase()}.`);
  if (values.length > 1)
    throw refusal(invalid, `${name.toUpperCase()} was sent ${values.length} times: send it once.`);
  return value;
}

function refusal(code: ErrorCode, message: string): GatewayError {
  return new GatewayError(code, message);
}
