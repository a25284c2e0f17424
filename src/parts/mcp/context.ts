import type { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { RpcMessage } from "../../x402/protocols/json-rpc.ts";
import type { Services } from "../../x402/services.ts";
import type { Session } from "./sessions.ts";
import type { StatelessClient } from "./stateless.ts";

/** A message, the HTTP request that carries it, and the way back for its progress. */
export interface Context {
  readonly message: RpcMessage;
  readonly request: HttpRequest;
  readonly session: Session | undefined;
  /** Abilities of the client that the message names; undefined in versions with sessions. */
  readonly client: StatelessClient | undefined;
  readonly notify?: (notification: object) => void;
  /** Registers a function that is called once the whole answer to the request was sent. */
  readonly whenSent: (listener: () => Promise<void>) => void;
}

/** Logs the error that a refusal answers, unless the error is the refusal itself. @returns the refusal */
export function logUnexpected(
  refusal: GatewayError,
  error: unknown,
  { message: { method }, request }: Context,
  { logger }: Pick<Services, "logger">,
): GatewayError {
  if (refusal !== error)
    logger.error({ err: error, request: request.id, method }, "request failed unexpectedly");
  return refusal;
}
