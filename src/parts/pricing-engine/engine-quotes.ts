import { randomBytes } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { bytesToHex, hexToBytes } from "viem";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import {
  GetJobPriceRequestSchema,
  type GetJobPriceResponse,
  GetJobPriceResponseSchema,
} from "../../gen/pricing_engine/pricing_pb.ts";
import type { QuoteSigning } from "./config.ts";
import type { EngineAnswer, EngineClient } from "./engine-client.ts";
import { readJobQuote } from "./job-quote.ts";
import type { Proof, ProofMaker } from "./proof-maker.ts";
import { type Question, QuestionSlots } from "./question-slots.ts";
import type { JobQuote } from "./quotes.ts";

/** Result of asking for a quote. */
export type QuoteAnswer =
  | { readonly kind: "quote"; readonly quote: JobQuote }
  | { readonly kind: "unpriced" }
  /** The engine cannot be reached, or returned an error. */
  | { readonly kind: "unavailable"; readonly reason: string }
  /** The engine's answer failed a check. */
  | { readonly kind: "untrustworthy"; readonly reason: string };

const PROOF_TIMEOUT_MS = 10_000;
const CALL_TIMEOUT_MS = 5_000;

interface Parts {
  readonly client: EngineClient;
  readonly proofs: Pick<ProofMaker, "proofFor" | "drop" | "prefer">;
  readonly signing: QuoteSigning;
  readonly clock: Clock;
}

/** Quotes that jobgate asks for itself, with the operator as requester. */
export class EngineQuotes {
  readonly #parts: Parts;
  readonly #slots = new QuestionSlots();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Asks for a new quote of one job, and checks it.
   * @param inputs hash of the request's inputs, 32 bytes. Default: random bytes, so that no two quotes are equal.
   * @throws GatewayError when no proof of work can be made
   */
  async ask(job: JobKey, question: Question = { urgent: true }, inputs?: Uint8Array): Promise<QuoteAnswer> {
    const inputsHash = inputs ?? randomBytes(32);
    try {
      let answer = await this.#call(job, inputsHash, question);
      // The proof may have been the problem, so the next call uses another proof.
      if (answer.status.code === status.INVALID_ARGUMENT)
        answer = await this.#call(job, inputsHash, question);
      return await this.#judge(answer, job, bytesToHex(inputsHash));
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "TimeoutError")) throw error;
      return { kind: "unavailable", reason: "the proof of work took too long" };
    }
  }

  async #call(job: JobKey, inputsHash: Uint8Array, question: Question): Promise<EngineAnswer> {
    // The proof is made before the query's turn, because making it may take long. It is made again if it has aged in the
    // meantime.
    await this.#proofFor(job);
    return this.#slots.run(
      question,
      () => this.#callNow(job, inputsHash),
      (answer) => answer.status.code === status.DEADLINE_EXCEEDED,
    );
  }

  async #callNow({ serviceId, jobIndex }: JobKey, inputsHash: Uint8Array): Promise<EngineAnswer> {
    const proof = await this.#proofFor({ serviceId });
    const request = create(GetJobPriceRequestSchema, {
      serviceId,
      jobIndex,
      proofOfWork: proof.proof,
      challengeTimestamp: proof.timestamp,
      requester: hexToBytes(this.#parts.signing.operatorAddress),
      inputsHash,
    });
    const bytes = Buffer.from(toBinary(GetJobPriceRequestSchema, request));
    const deadline = new Date(Date.now() + CALL_TIMEOUT_MS);
    const answer = await this.#parts.client.call("getJobPrice", bytes, { deadline });
    if (answer.status.code === status.INVALID_ARGUMENT) this.#parts.proofs.drop(serviceId, proof);
    return answer;
  }

  #proofFor({ serviceId }: Pick<JobKey, "serviceId">): Promise<Proof> {
    return this.#parts.proofs.proofFor(serviceId, AbortSignal.timeout(PROOF_TIMEOUT_MS));
  }

  async #judge(
    { status: { code, details }, message }: EngineAnswer,
    job: JobKey,
    inputsHash: string,
  ): Promise<QuoteAnswer> {
    if (code === status.NOT_FOUND) return { kind: "unpriced" };
    if (message === undefined) return { kind: "unavailable", reason: `${status[code]}: ${details}` };
    const response = parse(message);
    if (response === undefined) return untrustworthy("is not a GetJobPriceResponse");
    const read = await readJobQuote(response, this.#parts.signing, this.#parts.clock());
    if (read.kind !== "quote") return untrustworthy(read.reason);
    const { quote } = read;
    if (
      quote.serviceId !== job.serviceId ||
      quote.jobIndex !== job.jobIndex ||
      quote.requester !== this.#parts.signing.operatorAddress.toLowerCase() ||
      quote.inputsHash !== inputsHash
    ) {
      return untrustworthy("is not for what was asked");
    }
    this.#parts.proofs.prefer(job.serviceId);
    return { kind: "quote", quote };
  }
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
