import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor, type ServiceImpl } from "@connectrpc/connect";
import type { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Logger } from "pino";
import { closestWord } from "../../core/closest-word.ts";
import { GatewayError, refusalOf } from "../../core/errors.ts";
import { OperatorService } from "../../gen/jobgate/v1/operator_pb.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { MethodHandlers, RouteTable } from "../../http/routes.ts";
import { JSON_OPTIONS } from "../../operator/messages.ts";
import { invalid } from "../../operator/requests.ts";
import { guarded, type OperatorTokens } from "./access.ts";

/** Largest request; the longest one has 1000 call IDs. */
const MAX_REQUEST_BYTES = 64 * 1024;

/** Most characters of an unknown method's name that its refusal repeats. */
const MAX_NAME_LENGTH = 64;

/**
 * The operator's API over Connect, gRPC-Web and plain JSON. All three take only content types that a page of another
 * site cannot send without a CORS preflight.
 */
export function apiRoutes(api: {
  readonly service: ServiceImpl<typeof OperatorService>;
  readonly tokens: OperatorTokens;
  /** Ends open streams; the reason is their error. */
  readonly stopping: AbortSignal;
  readonly logger: Logger;
}): RouteTable {
  const { service, tokens, stopping, logger } = api;
  let made: ReturnType<typeof connectNodeAdapter> | undefined;
  /** Loads the protocols with the first call: they take 3 MB. */
  const makeAdapter = async () => {
    const { connectNodeAdapter } = await import("@connectrpc/connect-node");
    made ??= connectNodeAdapter({
      routes: (router) => router.service(OperatorService, service),
      grpc: false,
      acceptCompression: [],
      readMaxBytes: MAX_REQUEST_BYTES,
      // A misspelt filter must not pass for none.
      jsonOptions: { ...JSON_OPTIONS, ignoreUnknownFields: false },
      interceptors: [hideInternalErrors(logger)],
      shutdownSignal: stopping,
    });
    return made;
  };
  const handlers = OperatorService.methods.map(({ name, methodKind, input }): [string, MethodHandlers] => {
    const POST = guarded(tokens, async (request) => {
      checkContentType(request);
      const adapter = made ?? (await makeAdapter());
      if (methodKind !== "unary" || !isPlainBinary(request)) return adapter;
      const body = await readMessage(request, input);
      return (incoming, outgoing) => adapter(withBody(incoming, body), outgoing);
    });
    return [`/${OperatorService.typeName}/${name}`, { POST }];
  });
  const byPath = new Map(handlers);
  return (path) => byPath.get(path) ?? unknownMethod(path, tokens);
}

/** Refuses a method that the API does not have, in the shape of its other refusals. */
function unknownMethod(path: string, tokens: OperatorTokens): MethodHandlers | undefined {
  const prefix = `/${OperatorService.typeName}/`;
  if (!path.startsWith(prefix)) return undefined;
  const POST = guarded(tokens, async () => {
    const name = path.slice(prefix.length).slice(0, MAX_NAME_LENGTH);
    const near = closestWord(
      name,
      OperatorService.methods.map((method) => method.name),
    );
    const hint = near === undefined ? "" : `; did you mean ${near}?`;
    throw new ConnectError(`${OperatorService.typeName} has no method ${name}${hint}`, Code.Unimplemented);
  });
  return { POST };
}

/** Returns true for a unary Connect request in binary. */
function isPlainBinary({ headers }: HttpRequest): boolean {
  return (
    /^application\/proto\s*(;|$)/i.test(headers["content-type"] ?? "") &&
    headers["content-encoding"] === undefined
  );
}

/**
 * Reads a binary message. The protocol's own code answers 500 to a malformed one.
 * @throws ConnectError INVALID_ARGUMENT for a malformed message, RESOURCE_EXHAUSTED for one that is too large
 */
async function readMessage(request: HttpRequest, schema: DescMessage): Promise<Uint8Array> {
  const body = await request.readBody(MAX_REQUEST_BYTES).catch((error: unknown) => {
    if (!(error instanceof GatewayError) || error.code !== "body_too_large") throw error;
    throw new ConnectError(error.message, Code.ResourceExhausted);
  });
  try {
    fromBinary(schema, body);
  } catch (error) {
    throw invalid(`The body is not a ${schema.typeName}: ${String(error)}`);
  }
  return body;
}

/** Returns a request whose body was read before, as the adapter reads it. */
function withBody(
  { headers, method, url, httpVersion, socket }: IncomingMessage,
  body: Uint8Array,
): IncomingMessage {
  const head = { headers, method, url, httpVersion, socket };
  return Object.assign(Readable.from([body]), head) as unknown as IncomingMessage;
}

/**
 * Refuses other content types, for example those that a form or curl sends by default. The protocols refuse them too,
 * but with an empty answer.
 * @throws ConnectError INVALID_ARGUMENT
 */
function checkContentType({ headers }: HttpRequest): void {
  const contentType = headers["content-type"] ?? "";
  if (/^application\/(?!x-www-form-urlencoded)/i.test(contentType)) return;
  throw invalid("Send the request with content-type: application/json.");
}

/** Passes on errors that the caller can act on; logs the others and answers INTERNAL. */
function hideInternalErrors(logger: Logger): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (error) {
      if (error instanceof ConnectError) throw error;
      const refusal = refusalOf(error);
      const { code, retryable, message } = refusal;
      if (refusal !== error || !retryable)
        logger.error({ err: error, method: request.method.name }, "operator API call failed");
      if (retryable && code !== "internal_error") throw new ConnectError(message, Code.Unavailable);
      throw new ConnectError("Internal error in jobgate; its log has the details.", Code.Internal);
    }
  };
}
