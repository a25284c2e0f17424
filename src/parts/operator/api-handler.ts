import { setMaxListeners } from "node:events";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { type DescMessage, type DescMethod, fromBinary } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type HandlerContext,
  type Interceptor,
  type ServiceImpl,
} from "@connectrpc/connect";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Logger } from "pino";
import { closestWord } from "../../core/closest-word.ts";
import { GatewayError, refusalOf } from "../../core/errors.ts";
import { OperatorService } from "../../gen/jobgate/v1/operator_pb.ts";
import type { HttpRequest } from "../../http/request.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import { JSON_OPTIONS } from "../../operator/messages.ts";
import type { OperatorMethods } from "../../operator/methods.ts";
import { invalid } from "../../operator/requests.ts";
import type { History } from "./history.ts";
import { OperatorApi } from "./service.ts";
import type { OperatorSources } from "./sources.ts";

/** Largest request in bytes. The longest request that jobgate accepts has 1000 call IDs. */
const MAX_REQUEST_BYTES = 64 * 1024;

/** Most characters of an unknown method's name that its refusal repeats. */
const MAX_NAME_LENGTH = 64;

/** Answers a request to the method that the path names. */
export type AnswerCall = (name: string, request: HttpRequest) => Promise<RouteAnswer>;

/**
 * Opens the operator's API over Connect, gRPC-Web and plain JSON. All three take only content types that a page of
 * another site cannot send without a CORS preflight.
 */
export async function openApi(base: {
  readonly sources: OperatorSources;
  readonly history: History;
  /** Ends open streams. */
  readonly stopping: AbortSignal;
  readonly logger: Logger;
}): Promise<AnswerCall> {
  const { sources, stopping, logger } = base;
  const additions = await Promise.all(sources.additions().flatMap((addition) => addition.loadApi?.() ?? []));
  const service = joinMethods([
    new OperatorApi({ ...base, additions }),
    ...additions.map(({ methods }) => methods),
  ]);
  const adapter = connectNodeAdapter({
    routes: (router) => router.service(OperatorService, service),
    grpc: false,
    acceptCompression: [],
    readMaxBytes: MAX_REQUEST_BYTES,
    // A misspelt filter must not be treated as no filter.
    jsonOptions: { ...JSON_OPTIONS, ignoreUnknownFields: false },
    interceptors: [hideInternalErrors(logger)],
    shutdownSignal: endOf(stopping),
  });
  const methods = new Map(OperatorService.methods.map((method) => [method.name, method]));
  return async (name, request) => {
    try {
      const { methodKind, input } = methods.get(name) ?? unknownMethod(name);
      checkContentType(request);
      if (methodKind !== "unary" || !isPlainBinary(request)) return adapter;
      const body = await readMessage(request, input);
      return (incoming, outgoing) => adapter(withBody(incoming, body), outgoing);
    } catch (error) {
      if (error instanceof ConnectError)
        return jsonResponse(codeToHttpStatus(error.code), errorToJson(error, undefined));
      throw error;
    }
  };
}

type Method = (request: unknown, context: HandlerContext) => unknown;

/**
 * Makes one service of all methods. A method that no part of this build provides answers UNIMPLEMENTED.
 * @throws Error for a method that two parts have
 */
function joinMethods(all: readonly OperatorMethods[]): ServiceImpl<typeof OperatorService> {
  const methods = OperatorService.methods.map(({ name, localName }) => {
    const owners = all.filter((one) => localName in one) as readonly Readonly<Record<string, Method>>[];
    const [owner] = owners;
    if (owners.length > 1)
      throw new Error(`two parts of this build have the operator's method ${name}; expected one`);
    const absent = () => {
      throw new ConnectError(
        `This build of jobgate lacks the part that answers ${name}.`,
        Code.Unimplemented,
      );
    };
    const method: Method = (request, context) => owner?.[localName]?.(request, context) ?? absent();
    return [localName, method] as const;
  });
  return Object.fromEntries(methods) as unknown as ServiceImpl<typeof OperatorService>;
}

/** Makes a signal that ends streams with UNAVAILABLE. */
function endOf(stopping: AbortSignal): AbortSignal {
  const end = new AbortController();
  // Every open call adds a listener, and Node warns above ten.
  setMaxListeners(0, end.signal);
  const abort = () => end.abort(new ConnectError("jobgate is stopping.", Code.Unavailable));
  if (stopping.aborted) abort();
  else stopping.addEventListener("abort", abort);
  return end.signal;
}

/** Refuses a method that the API does not have, in the shape of its other refusals. @throws ConnectError UNIMPLEMENTED */
function unknownMethod(name: string): DescMethod {
  const shown = name.slice(0, MAX_NAME_LENGTH);
  const near = closestWord(
    shown,
    OperatorService.methods.map((method) => method.name),
  );
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  throw new ConnectError(`${OperatorService.typeName} has no method ${shown}${hint}`, Code.Unimplemented);
}

/** Returns true for a unary Connect request in binary. */
function isPlainBinary({ headers }: HttpRequest): boolean {
  return (
    /^application\/proto\s*(;|$)/i.test(headers["content-type"] ?? "") &&
    headers["content-encoding"] === undefined
  );
}

/**
 * Reads a binary message. The protocol's own code answers 500 to a malformed message.
 * @throws ConnectError INVALID_ARGUMENT for a malformed message, RESOURCE_EXHAUSTED for a message that is too large
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
 * Refuses other content types, for example the default content types of forms and of curl. The protocols refuse them
 * too, but with an empty answer.
 * @throws ConnectError INVALID_ARGUMENT
 */
function checkContentType({ headers }: HttpRequest): void {
  const contentType = headers["content-type"] ?? "";
  if (/^application\/(?!x-www-form-urlencoded)/i.test(contentType)) return;
  throw invalid("Send the request with content-type: application/json.");
}

/** Passes on errors that the caller can act on; logs other errors, and answers them with INTERNAL. */
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
