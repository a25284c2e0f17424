import { Code, ConnectError, type Interceptor, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Logger } from "pino";
import { GatewayError } from "../core/errors.ts";
import { OperatorService } from "../gen/jobgate/v1/operator_pb.ts";
import type { HttpRequest } from "../http/request.ts";
import type { RouteHandler, RouteTable } from "../http/routes.ts";
import { checkAccess, refusalResponse } from "./access.ts";
import { JSON_OPTIONS } from "./presentation.ts";

export interface ApiRoutesOptions {
  readonly service: ServiceImpl<typeof OperatorService>;
  /** Bearer token that every call must carry; undefined: none is asked for. */
  readonly token: string | undefined;
  /** Ends open streams, with its reason. */
  readonly stopping: AbortSignal;
  readonly logger: Logger;
}

/** Of a request: the longest holds 1000 call ids. */
const MAX_REQUEST_BYTES = 64 * 1024;

/**
 * The operator's API in Connect, gRPC-Web and plain JSON. All three only take content types that a page of
 * another site cannot send without asking first.
 */
export function apiRoutes({ service, token, stopping, logger }: ApiRoutesOptions): RouteTable {
  const adapter = connectNodeAdapter({
    routes: (router) => router.service(OperatorService, service),
    grpc: false,
    acceptCompression: [],
    readMaxBytes: MAX_REQUEST_BYTES,
    jsonOptions: JSON_OPTIONS,
    interceptors: [errorsForCallers(logger)],
    shutdownSignal: stopping,
  });
  const paths = new Set(OperatorService.methods.map(({ name }) => `/${OperatorService.typeName}/${name}`));
  const answer: RouteHandler = (request) => {
    try {
      checkAccess(request, token);
      checkContentType(request);
    } catch (error) {
      return refusalResponse(ConnectError.from(error));
    }
    return adapter;
  };
  return (path) => (paths.has(path) ? { POST: answer } : undefined);
}

/**
 * The protocols refuse other types too, but with an empty answer.
 * @throws ConnectError INVALID_ARGUMENT for a type that is none of theirs, such as what a form or curl sends
 */
function checkContentType({ headers }: HttpRequest): void {
  const contentType = headers["content-type"] ?? "";
  if (/^application\/(?!x-www-form-urlencoded)/i.test(contentType)) return;
  throw new ConnectError("Send the request with content-type: application/json.", Code.InvalidArgument);
}

/** Tells callers what they can do something about, and the log the rest. */
function errorsForCallers(logger: Logger): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      if (error instanceof ConnectError) throw error;
      if (error instanceof GatewayError && error.retryable) {
        throw new ConnectError(error.message, Code.Unavailable);
      }
      logger.error({ err: error, method: request.method.name }, "An operator's request failed");
      throw new ConnectError("Something went wrong inside jobgate: its log says what.", Code.Internal);
    }
  };
}
