import { GatewayError, refusalOf } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";
import { RpcError, type RpcMessage } from "../../x402/protocols/json-rpc.ts";
import type { Services } from "../../x402/services.ts";
import type { Wire } from "./task-view.ts";

/** A message, the HTTP request that carries it, and the version of A2A that it speaks. */
export interface Context {
  readonly message: RpcMessage;
  readonly request: HttpRequest;
  readonly wire: Wire;
  /** URIs of the extensions that the client activates and jobgate has. */
  readonly extensions: readonly string[];
  /** Registers a function that is called once the whole answer to the request was sent. */
  readonly whenSent: (listener: () => Promise<void>) => void;
}

/** Errors of A2A. */
export const A2A_ERRORS = {
  taskNotFound: -32001,
  taskNotCancelable: -32002,
  pushNotSupported: -32003,
  unsupportedOperation: -32004,
  noExtendedCard: -32007,
  versionNotSupported: -32009,
};

export function noTask(): RpcError {
  return new RpcError(
    A2A_ERRORS.taskNotFound,
    "There is no such task. Expected the ID of a task that this server began: a paid task of the last year, or an unpaid task of the last day.",
  );
}

/** Logs an error, unless it is a refusal, because the client gets refusals. */
export function logUnexpected(
  error: unknown,
  { message: { method }, request }: Pick<Context, "message" | "request">,
  { logger }: Pick<Services, "logger">,
): void {
  if (error instanceof RpcError || error instanceof GatewayError) return;
  logger.error(
    { err: error, code: refusalOf(error).code, request: request.id, method },
    "request failed unexpectedly",
  );
}
