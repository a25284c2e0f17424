import { randomBytes } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { bytesToHex, hexToBytes } from "viem";
import type { QuoteSigning } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { JobKey } from "../core/job-call.ts";
import {
  GetJobPriceRequestSchema,
  type GetJobPriceResponse,
  GetJobPriceResponseSchema,
} from "../gen/pricing_engine/pricing_pb.ts";
import type { EngineAnswer, EngineClient } from "./engine-client.ts";
import { type JobQuote, readJobQuote } from "./job-quote.ts";
import type { ProofMaker } from "./proof-maker.ts";

/** What asking for a quote came to. */
export type QuoteAnswer =
  | { readonly kind: "quote"; readonly quote: JobQuote }
  | { readonly kind: "unpriced" }
  /** The engine cannot be reached, or does not say what the job costs. */
  | { readonly kind: "unavailable"; readonly reason: string }
  /** What the engine says cannot be relied on. */
  | { readonly kind: "untrustworthy"; readonly reason: string };

/** Quotes that jobgate asks for on its own behalf: the requester is the operator. */
export interface EngineQuotes {
  /**
   * Asks for a new quote of one job, and checks it.
   * @throws GatewayError when no proof of work can be made
   */
  ask(job: JobKey): Promise<QuoteAnswer>;
}

export interface EngineQuotesOptions {
  readonly client: EngineClient;
  readonly proofs: ProofMaker;
  readonly signing: QuoteSigning;
  readonly clock: Clock;
}

const PROOF_TIMEOUT_MS = 10_000;
const CALL_TIMEOUT_MS = 5_000;

export function createEngineQuotes({ client, proofs, signing, clock }: EngineQuotesOptions): EngineQuotes {
  const requester = hexToBytes(signing.operatorAddress);

  async function ask(job: JobKey): Promise<QuoteAnswer> {
    // There are no inputs yet. Random ones make every quote, and so every digest, one of its own.
    const inputsHash = randomBytes(32);
    try {
      let answer = await call(job, inputsHash);
      if (answer.status.code === status.INVALID_ARGUMENT) answer = await call(job, inputsHash);
      return await judge(answer, job, bytesToHex(inputsHash));
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "TimeoutError")) throw error;
      return { kind: "unavailable", reason: "the proof of work took too long" };
    }
  }

  /** Lets go of a proof that may be what was wrong with the call, so that the next is made with another. */
  async function call(job: JobKey, inputsHash: Uint8Array): Promise<EngineAnswer> {
    const proof = await proofs.proofFor(job.serviceId, AbortSignal.timeout(PROOF_TIMEOUT_MS));
    const request = create(GetJobPriceRequestSchema, {
      serviceId: job.serviceId,
      jobIndex: job.jobIndex,
      proofOfWork: proof.proof,
      challengeTimestamp: proof.timestamp,
      requester,
      inputsHash,
    });
    const bytes = Buffer.from(toBinary(GetJobPriceRequestSchema, request));
    const deadline = new Date(Date.now() + CALL_TIMEOUT_MS);
    const answer = await client.call("getJobPrice", bytes, { deadline });
    if (answer.status.code === status.INVALID_ARGUMENT) proofs.drop(job.serviceId, proof);
    return answer;
  }

  async function judge(
    { status: { code, details }, message }: EngineAnswer,
    job: JobKey,
    inputsHash: string,
  ): Promise<QuoteAnswer> {
    if (code === status.NOT_FOUND) return { kind: "unpriced" };
    if (message === undefined) return { kind: "unavailable", reason: `${status[code]}: ${details}` };
    const response = parse(message);
    if (response === undefined) return untrustworthy("is not a GetJobPriceResponse");
    const read = await readJobQuote(response, signing, { nowMs: clock() });
    if (read.kind === "refused") return untrustworthy(read.reason);
    const { quote } = read;
    if (
      quote.serviceId !== job.serviceId ||
      quote.jobIndex !== job.jobIndex ||
      quote.requester !== signing.operatorAddress.toLowerCase() ||
      quote.inputsHash !== inputsHash
    ) {
      return untrustworthy("is not for what was asked");
    }
    proofs.prefer(job.serviceId);
    return { kind: "quote", quote };
  }

  return { ask };
}

function parse(message: Buffer): GetJobPriceResponse | undefined {
  try {
    return fromBinary(GetJobPriceResponseSchema, message);
  } catch {
    return undefined;
  }
}

function untrustworthy(what: string): QuoteAnswer {
  return { kind: "untrustworthy", reason: `the quote ${what}` };
}
