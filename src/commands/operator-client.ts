import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { OperatorService } from "../gen/jobgate/v1/operator_pb.ts";

/** How to reach the operator's API of a jobgate. */
export type OperatorAddress =
  /** `http://host:port` or `https://…` */
  | { readonly url: string }
  /** Path of a unix socket. */
  | { readonly socketPath: string };

export interface OperatorClientOptions {
  readonly address: OperatorAddress;
  /** Bearer token. */
  readonly token?: string;
  /** Of each call but Tail. Default: 10 s. */
  readonly timeoutMs?: number;
}

export type OperatorClient = Client<typeof OperatorService>;

const DEFAULT_TIMEOUT_MS = 10_000;

/** The operator's API over Connect and HTTP/1.1. Opens connections when used; none is left waiting afterwards. */
export function createOperatorClient(options: OperatorClientOptions): OperatorClient {
  const { address, token, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const withToken: Interceptor = (next) => (request) => {
    if (token !== undefined) request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl: "url" in address ? address.url : "http://localhost",
    nodeOptions: "url" in address ? {} : { socketPath: address.socketPath },
    acceptCompression: [],
    interceptors: [withToken],
  });
  return createClient(OperatorService, {
    stream: transport.stream.bind(transport),
    unary: (method, signal, callTimeoutMs, ...rest) =>
      transport.unary(method, signal, callTimeoutMs ?? timeoutMs, ...rest),
  });
}

/** Why a call failed, in terms of what its caller can do. */
export interface OperatorFailure {
  readonly kind: "unreachable" | "unauthenticated" | "not_found" | "refused";
  readonly message: string;
}

/** Undefined for an error that is not a failed call. */
export function operatorFailure(error: unknown): OperatorFailure | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const { code, rawMessage: message, cause } = error;
  if (code === Code.Unauthenticated) return { kind: "unauthenticated", message };
  // This API always says what was not found; another one, of jobgate or not, knows nothing of this path.
  if (code === Code.NotFound && message !== "") return { kind: "not_found", message };
  if (code === Code.NotFound || code === Code.Unimplemented) {
    return { kind: "unreachable", message: "what listens there is not the operator's API" };
  }
  // Node's own errors have a code: there was no answer.
  const noAnswer = code === Code.DeadlineExceeded || (cause instanceof Error && "code" in cause);
  return { kind: noAnswer ? "unreachable" : "refused", message };
}
