import { create } from "@bufbuild/protobuf";
import { Client, credentials } from "@grpc/grpc-js";
import { hexToBytes, keccak256, toBytes } from "viem";
import {
  type GetJobPriceRequest,
  GetJobPriceRequestSchema,
  type GetJobPriceResponse,
  PricingEngine,
} from "../../src/gen/pricing_engine/pricing_pb.ts";
import { grpcServiceDefinition } from "../../src/grpc/service-definition.ts";
import { jobQuoteDigest, readUncheckedTerms } from "../../src/parts/pricing-engine/job-quote.ts";
import { solveChallenge } from "../../src/parts/pricing-engine/proof-of-work.ts";
import { accounts } from "../helpers/accounts.ts";
import type { ReferenceEngine } from "../helpers/pricing-engine.ts";

/** Leading zero bits that the engines of these tests ask for. */
export const PROOF_BITS = 8;

export interface QuoteRequest {
  /** Default 0, of service 1. */
  readonly job?: number;
  /** Input of the job. */
  readonly body?: string;
  /** Default: the payer of the tests. */
  readonly requester?: `0x${string}`;
  /** Service of the proof of work. Default: 1, the requested service. */
  readonly provenService?: bigint;
}

export interface GivenQuote {
  readonly response: GetJobPriceResponse;
  /** EIP-712 digest, 64 hex digits. */
  readonly digest: string;
  /** Digest that redeems it. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Asks for a quote of a job, as a client of the pricing engine does. */
export async function askForQuote(
  address: string,
  engine: ReferenceEngine,
  { job = 0, body = "work", requester = accounts.payer.address, provenService = 1n }: QuoteRequest = {},
): Promise<GivenQuote> {
  const timestamp = BigInt(Math.floor(Date.now() / 1000));
  const proofOfWork = solveChallenge({ id: provenService, timestamp, bits: PROOF_BITS }, () => false);
  if (proofOfWork === undefined) throw new Error("no proof of work was found");
  const request = create(GetJobPriceRequestSchema, {
    serviceId: 1n,
    jobIndex: job,
    proofOfWork,
    challengeTimestamp: timestamp,
    requester: hexToBytes(requester),
    inputsHash: hexToBytes(keccak256(toBytes(body))),
  });
  const response = await getJobPrice(address, request);
  const terms = readUncheckedTerms(response);
  if (terms === undefined) throw new Error("the answer holds no quote");
  const digest = jobQuoteDigest(terms, engine.signing);
  return { response, digest, headers: { "x-x402-quote-digest": digest } };
}

async function getJobPrice(address: string, request: GetJobPriceRequest): Promise<GetJobPriceResponse> {
  const client = new Client(address, credentials.createInsecure());
  const { getJobPrice } = grpcServiceDefinition(PricingEngine);
  if (getJobPrice === undefined) throw new Error("the service has no GetJobPrice");
  const { path, requestSerialize, responseDeserialize } = getJobPrice;
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        { deadline: Date.now() + 50_000 },
        (error, answer) => (error ? reject(error) : resolve(answer as GetJobPriceResponse)),
      );
    });
  } finally {
    client.close();
  }
}

/** The configuration's table for an engine. */
export function engineTable({ url, signing }: ReferenceEngine): string {
  return `
[pricing_engine]
url = "${url}"
bind_address = "127.0.0.1:0"
proof_of_work_bits = ${PROOF_BITS}
chain_id = ${signing.chainId}
verifying_contract = "${signing.verifyingContract}"
operator_address = "${signing.operatorAddress}"
`;
}
