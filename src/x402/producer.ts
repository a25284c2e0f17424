import { type JobCall, SERVICE_ID_METADATA } from "../core/job-call.ts";
import type { Offer } from "./wire/offer.ts";

/** Makes the JobCall of a request that pays for a job. */
export class X402Producer {
  jobCall(paid: {
    /** The offer that the payment answers. */
    readonly offer: Offer;
    readonly body: Uint8Array;
    /** 64 hex digits. */
    readonly quoteDigest: string;
    /** The caller of a restricted job. */
    readonly caller?: string;
  }): JobCall {
    const { offer, body, quoteDigest, caller } = paid;
    const { job, token, confidentiality } = offer;
    return {
      origin: "x402",
      jobId: BigInt(job.jobIndex),
      serviceId: job.serviceId,
      body,
      metadata: {
        "X-X402-ORIGIN": "x402",
        "X-X402-QUOTE-DIGEST": quoteDigest,
        "X-X402-PAYMENT-NETWORK": token.network,
        "X-X402-PAYMENT-TOKEN": token.symbol,
        ...(confidentiality === undefined ? {} : { "X-X402-CONFIDENTIALITY": confidentiality }),
        [SERVICE_ID_METADATA]: job.serviceId.toString(),
        ...(caller === undefined ? {} : { "X-CHAIN-CALLER": caller.toLowerCase() }),
      },
    };
  }
}
