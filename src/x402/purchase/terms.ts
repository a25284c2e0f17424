import type { JobRunner } from "../../config/config.ts";
import type { ErrorCode, GatewayError } from "../../core/errors.ts";
import type { JobCall, JobKey } from "../../core/job-call.ts";
import type { HttpRequest, JobRequest } from "../../http/request.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import type { SignedPayment } from "../methods/method.ts";
import type { PurchaseNonce } from "../settlement/settlement.ts";
import type { JobDescription } from "../wire/offer.ts";

/** A step of a purchase. */
export type StepName =
  | "resend"
  | "price"
  | "input"
  | "offer"
  | "room"
  | "verification"
  | "confirmation"
  | "settlement";

/** Conditions of a part on the sale of jobs. */
export interface Terms {
  /** Refuses a job that is not on sale now, whether or not its request has a payment. @throws GatewayError */
  requireOpen?(job: JobKey): void;
  /**
   * Refuses a request that is answered without a payment: at the route of a job, by the access of its client, or at a free route of a
   * runner of this process. @throws GatewayError
   */
  requireOpenUnpaid?(sold: { readonly job?: JobKey; readonly runner: JobRunner | undefined }): void;
  /** Describes the clients that may run a restricted job; undefined for a job that the terms do not restrict. */
  accessTo?(job: JobKey): JobAccess | undefined;
  /** Returns the requirement on every buyer of a job; undefined if the terms require nothing for the job. */
  requires?(job: JobKey): Requirement | undefined;
  /**
   * Returns a payment with the fingerprint that the journal uses for it. Undefined if the journal uses the fingerprint of
   * the signed payload. With some methods, a signature can buy again after its first purchase was undone.
   */
  recognise?(payment: SignedPayment): Promise<SignedPayment>;
  /**
   * Finds the payments that were made with a signed payment, whatever requests its method bound them to. Undefined if no method
   * of the part binds payments.
   */
  findBound?(payment: SignedPayment): Promise<readonly Pick<SignedPayment, "fingerprint">[]>;
  /** Checks between the steps of a purchase. */
  readonly checks?: readonly TermsCheck[];
  /** Headers whose values are kept with the payment. */
  readonly notes?: readonly NotedHeader[];
}

/** A header of a part whose value is stored with the payment. The payment is bound to the value. */
export interface NotedHeader {
  /** Name as messages spell it, and the name of the note in {@link PurchaseNotes}. */
  readonly name: string;
  /**
   * Reads a header that a request has.
   * @returns the note, and a refusal if the value can buy nothing now. The note is still needed then, because an
   * earlier payment may have this note
   */
  read(values: readonly string[]): { readonly note: string; readonly refusal?: GatewayError };
}

/** Access to a restricted job, as lists of jobs show it. */
export interface JobAccess {
  /** Name of the way in which clients prove that they may run the job. */
  readonly mode: string;
  /** A sentence about the access, for buyers. */
  readonly note: string;
  /** Reason why pages for browsers cannot buy the job. */
  readonly notByPage?: string;
  /** Headers that requests for the job have, with their descriptions. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Something that every buyer of a job must send, as documents about the job show it. */
export interface Requirement {
  readonly name: string;
  /** A sentence about the requirement, for buyers. */
  readonly note: string;
}

/** A check of a part at a named place in the order of a purchase. */
export interface TermsCheck {
  readonly name: string;
  /** Jobs to which the check applies, by `jobKeyText`. Undefined means all jobs. */
  readonly jobs?: Pick<ReadonlySet<string>, "has">;
  /** The step that the check comes before. */
  readonly before: StepName;
  /** Codes of the check's refusals, in their order. */
  readonly refusals: readonly ErrorCode[];
  /** @returns undefined if the terms add nothing @throws GatewayError */
  run(request: CheckedRequest): Contribution | undefined | Promise<Contribution | undefined>;
}

/** A paid request, before its payment is verified. */
export interface CheckedRequest {
  readonly job: JobKey;
  readonly request: JobRequest;
  readonly payment: SignedPayment;
  readonly body: Uint8Array;
  /** Hash of the whole request, at a job's own route. */
  readonly requestHash: string | undefined;
  /** Address of the client. */
  readonly client: string;
}

/** Additions of terms to a purchase that they allow. */
export interface Contribution {
  /** Further metadata of the JobCall. */
  readonly metadata?: JobCall["metadata"];
  /** Further headers that the runner gets. */
  readonly requestMetadata?: JobCall["requestMetadata"];
  /** A nonce that is used up with the payment. */
  readonly nonce?: PurchaseNonce | undefined;
  /** Called once the JobCall is queued, or the request refused. */
  leave?(): void;
}

/** Describes the clients that may run a restricted job; undefined for a job that no terms restrict. */
export function accessTo(job: JobKey, all: readonly Terms[]): JobAccess | undefined {
  for (const terms of all) {
    const access = terms.accessTo?.(job);
    if (access !== undefined) return access;
  }
  return undefined;
}

/** Access for known clients, who run jobs without a payment. */
export interface UnpaidAccess {
  /**
   * Answers a request at the route of a job that is for sale.
   * @param pays true if the request carries a payment. Such a request buys the job, unless its other credentials are unknown
   * @returns undefined if the request has to pay
   * @throws GatewayError for unknown credentials, with which a request buys nothing
   */
  answer(request: HttpRequest, job: JobKey, pays: boolean): Promise<RouteAnswer | undefined>;
  /**
   * Returns the extensions of a request's 402 by which its client can get access; undefined if there are no such extensions.
   */
  extensionsFor(request: HttpRequest, job: JobKey): JobDescription["extensions"] | undefined;
}
