import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type StatusObject,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { bytesToHex, hexToBytes, numberToBytes } from "viem";
import { jobKeyText } from "../../src/core/job-call.ts";
import {
  GetJobPriceRequestSchema,
  type GetJobPriceResponse,
  GetJobPriceResponseSchema,
  GetPriceRequestSchema,
  GetPriceResponseSchema,
} from "../../src/gen/pricing_engine/pricing_pb.ts";
import { close, listen } from "../../src/grpc/server.ts";
import type { QuoteSigning } from "../../src/parts/pricing-engine/config.ts";
import { RAW_ENGINE_METHODS } from "../../src/parts/pricing-engine/engine-channel.ts";
import { jobQuoteTypedData } from "../../src/parts/pricing-engine/job-quote.ts";
import type { Challenge } from "../../src/parts/pricing-engine/proof-of-work.ts";
import type { JobQuoteTerms } from "../../src/parts/pricing-engine/quotes.ts";
import { accounts, type TestAccount } from "./accounts.ts";

/** Faults of the engine. They may be changed while it runs. */
export interface EngineFaults {
  /** Signs quotes instead of the operator. */
  signer?: TestAccount;
  /** Quoted and signed instead of the requested values. */
  quoteInstead?: Partial<JobQuoteTerms>;
  /** Changes an answer after it was signed. */
  tamper?: (response: GetJobPriceResponse) => void;
  /** Answered in place of every message. */
  rawAnswer?: Buffer;
  /** Answered to every call, before anything is looked at. */
  fail?: Partial<StatusObject>;
  /** Sent with the start of every answer. */
  initialMetadata?: Metadata;
  /** Sent with the end of every answer that is not a failure. */
  trailingMetadata?: Metadata;
  /** Waits for so long with every answer. */
  delayMs?: number;
}

/** One received call. */
export interface ReceivedCall {
  readonly method: "getPrice" | "getJobPrice";
  readonly request: Buffer;
  readonly metadata: Metadata;
  /** Unix milliseconds, or Infinity. */
  readonly deadlineMs: number;
  /** The answer, once there is one. */
  response?: Buffer;
  cancelled?: true;
}

export interface PricingEngineOptions {
  /** Default: a free one. */
  readonly port?: number;
  /** Prices in wei by `service/job`. */
  readonly prices?: Readonly<Record<string, bigint>>;
  /** Leading zero bits of proofs. Default: 8. */
  readonly difficulty?: number;
  /** Default: 3600. */
  readonly quoteLifetimeSecs?: number;
  readonly chainId?: number;
  readonly verifyingContract?: `0x${string}`;
}

/** The operator's pricing engine by its specification, with a real server, proofs and signatures. */
export interface ReferenceEngine {
  readonly url: string;
  readonly port: number;
  /** Domain and signer that its quotes are checked against. */
  readonly signing: QuoteSigning;
  readonly prices: Map<string, bigint>;
  readonly faults: EngineFaults;
  /** Every call so far. */
  readonly calls: readonly ReceivedCall[];
  /** Most calls that were unanswered at one time. */
  readonly mostAtOnce: number;
  quoteLifetimeSecs: number;
  /** Stops answering, and cuts open connections. */
  stop(): Promise<void>;
}

const OPERATOR = accounts.deployer;
const MAX_CLOCK_DIFFERENCE_SECS = 30;

/** Checks a proof of work, independently of the code that makes them. */
export function isProof(proof: Uint8Array, { id, timestamp, bits }: Challenge): boolean {
  if (proof.length !== 48) return false;
  const view = new DataView(proof.buffer, proof.byteOffset);
  if (view.getBigUint64(0, true) !== 32n) return false;
  const challenge = sha256(numberToBytes(id, { size: 8 }), numberToBytes(timestamp, { size: 8 }));
  const digest = sha256(challenge, numberToBytes(view.getBigUint64(40, true), { size: 8 }));
  const inBits = [...digest].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return digest.equals(proof.subarray(8, 40)) && inBits.startsWith("0".repeat(bits));
}

function sha256(...parts: Uint8Array[]): Buffer {
  return createHash("sha256").update(Buffer.concat(parts)).digest();
}

class Refusal extends Error {
  readonly code: status;
  constructor(code: status, details: string) {
    super(details);
    this.code = code;
  }
}

export async function startPricingEngine(options: PricingEngineOptions = {}): Promise<ReferenceEngine> {
  const { difficulty = 8, quoteLifetimeSecs = 3600, port = 0, prices = {} } = options;
  const signing: QuoteSigning = {
    chainId: options.chainId ?? 31337,
    verifyingContract: options.verifyingContract ?? "0xDeaDbeefdEAdbeefdEadbEEFdeadbeEFdEaDbeeF",
    operatorAddress: OPERATOR.address,
  };
  const calls: ReceivedCall[] = [];
  let unanswered = 0;
  let mostAtOnce = 0;
  const server = new Server();

  function checkRequester(requester: Uint8Array): void {
    if (requester.length !== 20 || requester.every((byte) => byte === 0)) {
      throw new Refusal(status.INVALID_ARGUMENT, "requester must be 20 bytes, not zero");
    }
  }

  function checkProof(proof: Uint8Array, id: bigint, timestamp: bigint): void {
    const now = Math.floor(Date.now() / 1000);
    if (Math.abs(now - Number(timestamp)) > MAX_CLOCK_DIFFERENCE_SECS) {
      throw new Refusal(status.INVALID_ARGUMENT, "challenge timestamp is too far from the engine's clock");
    }
    if (!isProof(proof, { id, timestamp, bits: difficulty })) {
      throw new Refusal(status.INVALID_ARGUMENT, "invalid proof of work");
    }
  }

  async function jobPrice(bytes: Buffer): Promise<Uint8Array> {
    const request = fromBinary(GetJobPriceRequestSchema, bytes);
    const { serviceId, jobIndex, requester, inputsHash } = request;
    checkRequester(requester);
    if (inputsHash.length !== 32) throw new Refusal(status.INVALID_ARGUMENT, "inputs_hash must be 32 bytes");
    checkProof(request.proofOfWork, serviceId, request.challengeTimestamp);
    if (request.requireTee) throw new Refusal(status.UNAVAILABLE, "no trusted execution environment here");
    const priceWei = engine.prices.get(jobKeyText(serviceId, jobIndex));
    if (priceWei === undefined) throw new Refusal(status.NOT_FOUND, "job is not priced");
    if (jobIndex > 255) throw new Refusal(status.INTERNAL, "job index does not fit uint8");
    const timestamp = BigInt(Math.floor(Date.now() / 1000));
    const terms: JobQuoteTerms = {
      serviceId,
      jobIndex,
      priceWei,
      timestamp,
      expiry: timestamp + BigInt(engine.quoteLifetimeSecs),
      confidentiality: 0,
      requester: bytesToHex(requester),
      inputsHash: bytesToHex(inputsHash),
      ...engine.faults.quoteInstead,
    };
    const signer = engine.faults.signer ?? OPERATOR;
    const response = create(GetJobPriceResponseSchema, {
      quoteDetails: {
        ...terms,
        price: numberToBytes(terms.priceWei, { size: 32 }),
        requester: hexToBytes(terms.requester),
        inputsHash: hexToBytes(terms.inputsHash),
      },
      signature: hexToBytes(await signer.signTypedData(jobQuoteTypedData(terms, signing))),
      operatorId: hexToBytes(OPERATOR.address),
      proofOfWork: request.proofOfWork,
    });
    engine.faults.tamper?.(response);
    return toBinary(GetJobPriceResponseSchema, response);
  }

  async function servicePrice(bytes: Buffer): Promise<Uint8Array> {
    const { blueprintId, ttlBlocks, requester, proofOfWork, challengeTimestamp } = fromBinary(
      GetPriceRequestSchema,
      bytes,
    );
    checkRequester(requester);
    checkProof(proofOfWork, blueprintId, challengeTimestamp);
    const timestamp = BigInt(Math.floor(Date.now() / 1000));
    const expiry = timestamp + BigInt(engine.quoteLifetimeSecs);
    return toBinary(
      GetPriceResponseSchema,
      create(GetPriceResponseSchema, {
        quoteDetails: { blueprintId, ttlBlocks, totalCostRate: 0.25, timestamp, expiry, requester },
        signature: hexToBytes(await OPERATOR.signMessage({ message: { raw: bytes } })),
        operatorId: hexToBytes(OPERATOR.address),
        proofOfWork,
      }),
    );
  }

  const serve =
    (method: ReceivedCall["method"], answer: (request: Buffer) => Promise<Uint8Array>) =>
    (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => {
      const deadlineMs = Number(call.getDeadline());
      const received: ReceivedCall = {
        method,
        request: call.request,
        metadata: call.metadata.clone(),
        deadlineMs,
      };
      calls.push(received);
      unanswered += 1;
      mostAtOnce = Math.max(mostAtOnce, unanswered);
      call.on("cancelled", () => {
        received.cancelled = true;
      });
      const { initialMetadata, fail, rawAnswer, trailingMetadata, delayMs = 0 } = engine.faults;
      const respond = async (): Promise<void> => {
        if (initialMetadata !== undefined) call.sendMetadata(initialMetadata.clone());
        await sleep(delayMs);
        if (fail !== undefined) return callback(fail);
        received.response = rawAnswer ?? Buffer.from(await answer(call.request));
        callback(null, received.response, trailingMetadata?.clone());
      };
      respond()
        .catch((error: unknown) => {
          const code = error instanceof Refusal ? error.code : status.INTERNAL;
          callback({ code, details: error instanceof Error ? error.message : String(error) });
        })
        .finally(() => {
          unanswered -= 1;
        });
    };

  server.addService(RAW_ENGINE_METHODS, {
    getPrice: serve("getPrice", servicePrice),
    getJobPrice: serve("getJobPrice", jobPrice),
  });
  const boundPort = await listen(server, `127.0.0.1:${port}`, ServerCredentials.createInsecure());

  const engine: ReferenceEngine = {
    url: `http://127.0.0.1:${boundPort}`,
    port: boundPort,
    signing,
    prices: new Map(Object.entries(prices)),
    faults: {},
    calls,
    get mostAtOnce() {
      return mostAtOnce;
    },
    quoteLifetimeSecs,
    stop: () => close(server, 0),
  };
  return engine;
}
