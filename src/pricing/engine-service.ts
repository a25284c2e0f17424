import type { handleUnaryCall, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { Amendment } from "./amendment.ts";
import type { EngineAnswer, EngineClient } from "./engine-client.ts";
import type { EngineMethod } from "./engine-methods.ts";
import { passedMetadata } from "./passed-metadata.ts";

export interface EngineServiceOptions {
  readonly client: EngineClient;
  /** For quotes of jobs. */
  readonly amendJobPrice: Amendment;
  readonly logger: Logger;
}

type Handler = handleUnaryCall<Buffer, Buffer>;

/** For calls that came without a deadline. */
const DEFAULT_DEADLINE_MS = 30_000;

/**
 * Passes each call on to the engine, and its answer back: bytes, metadata, deadline, cancellation and errors as
 * they came.
 */
export function createEngineService({
  client,
  amendJobPrice,
  logger,
}: EngineServiceOptions): Record<EngineMethod, Handler> {
  async function ask(
    method: EngineMethod,
    call: ServerUnaryCall<Buffer, Buffer>,
    deadlineMs: number,
  ): Promise<EngineAnswer> {
    const cancelled = new AbortController();
    call.on("cancelled", () => cancelled.abort());
    return client.call(method, call.request, {
      metadata: passedMetadata(call.metadata),
      deadline: new Date(deadlineMs),
      signal: cancelled.signal,
    });
  }

  async function passOn(
    method: EngineMethod,
    amend: Amendment,
    call: ServerUnaryCall<Buffer, Buffer>,
    reply: sendUnaryData<Buffer>,
  ): Promise<void> {
    const given = Number(call.getDeadline());
    const deadlineMs = Number.isFinite(given) ? given : Date.now() + DEFAULT_DEADLINE_MS;
    const { initialMetadata, message, status } = await ask(method, call, deadlineMs);
    const metadata = passedMetadata(status.metadata);
    const answer = message === undefined ? undefined : await amend(message, deadlineMs);
    if (initialMetadata !== undefined) call.sendMetadata(passedMetadata(initialMetadata));
    if (answer === undefined) reply({ code: status.code, details: status.details, metadata });
    else reply(null, answer, metadata);
  }

  const handler =
    (method: EngineMethod, amend: Amendment): Handler =>
    (call, reply) => {
      passOn(method, amend, call, reply).catch((error: unknown) => {
        logger.error({ err: error, method }, "a call to the pricing engine could not be passed on");
        reply(error instanceof Error ? error : new Error(String(error)));
      });
    };

  return {
    getPrice: handler("getPrice", async (message) => message),
    getJobPrice: handler("getJobPrice", amendJobPrice),
  };
}
