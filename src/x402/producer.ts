import type { X402Config } from "../config/config.ts";
import { priceText } from "../core/amounts.ts";
import { type JobCall, type JobKey, jobKeyText, SERVICE_ID_METADATA } from "../core/job-call.ts";
import { oneSpelling } from "../core/payment.ts";
import { ForwardedHeaders, type JobRequest } from "../http/request.ts";
import type { SignedPayment } from "./methods/method.ts";
import { type Offer, schemeOf } from "./wire/offer.ts";

/** Returns the headers that the runner of each job gets: the job's own list, or else the gateway's. */
export function forwardedHeadersOf({
  forwardHeaders,
  jobs = [],
}: Pick<X402Config, "forwardHeaders" | "jobs">): (job: JobKey) => ForwardedHeaders {
  const ofGateway = new ForwardedHeaders(forwardHeaders);
  const ofJobs = new Map(
    jobs.flatMap(({ serviceId, jobIndex, forwardHeaders: own, price, runner }) => {
      const priced = typeof price === "object" && "from" in price ? price.headers : [];
      const areBytes = runner?.sendsHeadersOn === true;
      if (own === undefined && priced.length === 0 && !areBytes) return [];
      const headers = new ForwardedHeaders(own ?? forwardHeaders, { priced, areBytes });
      return [[jobKeyText(serviceId, jobIndex), headers] as const];
    }),
  );
  return ({ serviceId, jobIndex }) => ofJobs.get(jobKeyText(serviceId, jobIndex)) ?? ofGateway;
}

/** Makes the JobCall of a request that pays for a job. */
export class X402Producer {
  readonly #headersOf: (job: JobKey) => ForwardedHeaders;

  constructor(config: Pick<X402Config, "forwardHeaders" | "jobs">) {
    this.#headersOf = forwardedHeadersOf(config);
  }

  /** Reads the headers that the job's runner gets. @throws GatewayError `headers_too_large` */
  readHeaders(
    request: Pick<JobRequest, "headerValues" | "headers">,
    job: JobKey,
  ): NonNullable<JobCall["requestMetadata"]> {
    return this.#headersOf(job).read(request);
  }

  jobCall(paid: {
    /** The offer that the payment answers. */
    readonly offer: Pick<Offer, "job" | "amount" | "confidentiality" | "charge" | "chargesBack"> & {
      readonly token: Pick<Offer["token"], "network" | "symbol">;
    } & Partial<Pick<Offer, "priceWei" | "currency">>;
    readonly payment: Pick<SignedPayment, "from" | "purchaseName">;
    readonly body: Uint8Array;
    /** Result of {@link readHeaders}. */
    readonly requestMetadata?: JobCall["requestMetadata"];
    /** 64 hex digits. */
    readonly quoteDigest: string;
    /** Metadata that the terms of the job add. */
    readonly metadata?: JobCall["metadata"];
  }): JobCall {
    const { offer, payment, body, requestMetadata = [], quoteDigest, metadata } = paid;
    const { job, token, amount, priceWei, currency, confidentiality, chargesBack } = offer;
    const { from, purchaseName } = payment;
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
        "X-X402-PAYMENT-SCHEME": chargesBack?.scheme ?? schemeOf(offer),
        "X-X402-PAYMENT-AMOUNT": amount,
        ...(currency === undefined || priceWei === undefined
          ? {}
          : { "X-X402-PRICE": priceText({ unit: "usd", amount: priceWei }) }),
        "X-X402-PAYER": oneSpelling(from),
        ...(purchaseName === undefined ? {} : { "X-X402-PAYMENT-ID": purchaseName }),
        ...(confidentiality === undefined ? {} : { "X-X402-CONFIDENTIALITY": confidentiality }),
        [SERVICE_ID_METADATA]: job.serviceId.toString(),
        ...metadata,
      },
      requestMetadata,
    };
  }
}
