import {
  type handleUnaryCall,
  Metadata,
  type ServerUnaryCall,
  type StatusObject,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import type { Logger } from "pino";
import { RateLimit } from "../../http/limits.ts";
import type { EngineMethod } from "./engine-channel.ts";
import type { EngineClient } from "./engine-client.ts";

/**
 * Changes an answer's message on its way back. Never rejects.
 * @param deadlineMs Unix milliseconds after which the answer is not used
 */
type Amendment = (message: Buffer, deadlineMs: number) => Promise<Buffer>;

/** Deadline of calls that come without one. */
const DEFAULT_DEADLINE_MS = 30_000;

const SECS_BETWEEN_WARNINGS = 10;

/** Texts for clients, by code, where the engine did not answer. */
const UNANSWERED: Partial<Record<status, string>> = {
  [status.CANCELLED]: "The call was cancelled.",
  [status.DEADLINE_EXCEEDED]: "The pricing engine did not answer before the deadline.",
  [status.RESOURCE_EXHAUSTED]: "The pricing engine's answer is too large.",
  [status.UNAVAILABLE]: "The pricing engine cannot be reached. Try again later.",
};

/**
 * Metadata of one connection or of one end of a call. Content-length counts the bytes as they were sent, but an amended
 * answer has another length, and HTTP/2 resets a stream that differs from it.
 */
const HOP_METADATA = new Set(["te", "content-type", "content-length", "user-agent", "host", "date"]);

/**
 * Passes each call on to the engine, and its answer back: bytes, metadata, deadline, cancellation and errors unchanged,
 * except for the amended answers of getJobPrice.
 */
export class EngineService {
  readonly #client: EngineClient;
  readonly #logger: Logger;
  readonly #warningLimit = new RateLimit(SECS_BETWEEN_WARNINGS);
  readonly handlers: Record<EngineMethod, handleUnaryCall<Buffer, Buffer>>;

  constructor(parts: {
    readonly client: EngineClient;
    readonly amendJobPrice: Amendment;
    readonly logger: Logger;
  }) {
    this.#client = parts.client;
    this.#logger = parts.logger;
    this.handlers = {
      getPrice: this.#handler("getPrice", async (message) => message),
      getJobPrice: this.#handler("getJobPrice", parts.amendJobPrice),
    };
  }

  #handler(method: EngineMethod, amend: Amendment): handleUnaryCall<Buffer, Buffer> {
    return (call, reply) => {
      this.#passOn(method, amend, call, reply).catch((error: unknown) => {
        this.#logger.error({ err: error, method }, "could not pass a call on to the pricing engine");
        reply(error instanceof Error ? error : new Error(String(error)));
      });
    };
  }

  async #passOn(
    method: EngineMethod,
    amend: Amendment,
    call: ServerUnaryCall<Buffer, Buffer>,
    reply: sendUnaryData<Buffer>,
  ): Promise<void> {
    const given = Number(call.getDeadline());
    const deadlineMs = Number.isFinite(given) ? given : Date.now() + DEFAULT_DEADLINE_MS;
    const cancelled = new AbortController();
    call.on("cancelled", () => cancelled.abort());
    const { initialMetadata, message, ...end } = await this.#client.call(method, call.request, {
      metadata: passedMetadata(call.metadata),
      deadline: new Date(deadlineMs),
      signal: cancelled.signal,
    });
    const metadata = passedMetadata(end.status.metadata);
    const { code, details } = end.isFromEngine ? end.status : this.#withoutAddress(method, end.status);
    const answer = message && (await amend(message, deadlineMs));
    if (initialMetadata !== undefined) call.sendMetadata(passedMetadata(initialMetadata));
    if (answer === undefined) reply({ code, details, metadata });
    else reply(null, answer, metadata);
  }

  /** Logs why the engine did not answer, and returns a text for clients, who should not learn its address. */
  #withoutAddress(method: EngineMethod, { code, details }: StatusObject) {
    if (code !== status.CANCELLED && this.#warningLimit.exceeded("all", 1) === undefined)
      this.#logger.warn({ method, code: status[code], reason: details }, "the pricing engine did not answer");
    return { code, details: UNANSWERED[code] ?? "The call to the pricing engine failed." };
  }
}

/** Returns the sender's own metadata, without the metadata of its connection and of gRPC. */
export function passedMetadata(metadata: Metadata): Metadata {
  const passed = new Metadata();
  for (const key of Object.keys(metadata.getMap())) {
    if (isReserved(key)) continue;
    for (const value of metadata.get(key)) passed.add(key, value);
  }
  return passed;
}

function isReserved(key: string): boolean {
  // The name of this metadata is gRPC's own, but its value, the details of an error, comes from the server.
  if (key === "grpc-status-details-bin") return false;
  return key.startsWith(":") || key.startsWith("grpc-") || HOP_METADATA.has(key);
}
