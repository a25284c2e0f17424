import { existsSync } from "node:fs";
import { createRegistry, type Message, toJsonString } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { InvalidArgumentError } from "commander";
import { type BindAddress, localUrl, parseBindAddress } from "../core/network-address.ts";
import { defined } from "../core/objects.ts";
import {
  type CallState,
  file_jobgate_v1_operator,
  OperatorService,
  type PaymentState,
} from "../gen/jobgate/v1/operator_pb.ts";
import { CALL_STATES, JSON_OPTIONS, nameIn, PAYMENT_STATES } from "../operator/messages.ts";
import { Refusal, refusalOfMistakes } from "./input.ts";
import type { FilterOptions } from "./options.ts";

export type { Message } from "@bufbuild/protobuf";
export {
  durationFromMs,
  type Timestamp,
  timestampFromMs,
  timestampMs,
} from "@bufbuild/protobuf/wkt";
export type {
  AdoptPaymentResponse,
  Call,
  ClosePaymentResponse,
  DeadLetter,
  DeadLetterGroup,
  Event,
  GetActivityResponse,
  GetCallContentResponse,
  GetCallResponse,
  GetDeadLetterResponse,
  GetInfoResponse,
  GetPaymentResponse,
  GetRevenueResponse,
  GetTotalsResponse,
  HeldKey,
  ListEndpointsResponse,
  ListHoldingsResponse,
  ListRunnersResponse,
  ListUntakenJobsResponse,
  MovementSum,
  Pausable,
  Payment,
  RefusedPayment,
  SearchResult,
} from "../gen/jobgate/v1/operator_pb.ts";
export {
  DeadLetterStatus,
  PaymentState,
  PaymentVerdict,
  SearchKind,
} from "../gen/jobgate/v1/operator_pb.ts";

export type OperatorClient = Client<typeof OperatorService>;

/** Address of an operator listener: `http://host:port` or `https://…`, or the path of a unix socket. */
type OperatorAddress = { readonly url: string } | { readonly socketPath: string };

/** Options of every command that calls a running jobgate. */
export interface OperatorSelection {
  readonly config: string;
  /** The URL is parsed in the action, because commander quotes arguments that it refuses, and a URL may contain a password. */
  readonly target?: string;
}

/** Timeout of every call but Tail. */
const TIMEOUT_MS = 10_000;

/**
 * Calls a running jobgate.
 * @throws Refusal if jobgate cannot be reached or refuses the call
 * @throws InvalidArgumentError if jobgate refuses an argument of the command
 */
export async function callOperator<T>(
  selection: OperatorSelection,
  call: (client: OperatorClient) => Promise<T>,
): Promise<T> {
  const { address, token } = await findOperator(selection);
  try {
    return await call(createOperatorClient({ address, token }));
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    throw refusalOf(error, "url" in address ? address.url : `unix:${address.socketPath}`);
  }
}

/** Client of the operator's API over Connect and HTTP/1.1. It opens connections on demand and keeps none open. */
export function createOperatorClient(options: {
  readonly address: OperatorAddress;
  readonly token?: string | undefined;
}): OperatorClient {
  const { address, token } = options;
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
    unary: (method, signal, timeoutMs, ...rest) =>
      transport.unary(method, signal, timeoutMs ?? TIMEOUT_MS, ...rest),
  });
}

function refusalOf(
  { code, rawMessage: message, cause }: ConnectError,
  where: string,
): Refusal | InvalidArgumentError {
  if (code === Code.Unauthenticated) {
    return new Refusal([
      `${where} refuses the token: ${message}`,
      "Set JOBGATE_OPERATOR_TOKEN, or point -c at the configuration that jobgate was started with.",
    ]);
  }
  if (code === Code.InvalidArgument) return new InvalidArgumentError(message);
  // The operator's API always names the thing that it did not find. An empty message comes from another server.
  if (code === Code.NotFound && message !== "") return new Refusal([message]);
  if (code === Code.NotFound || code === Code.Unimplemented)
    return unreachable(where, "the server there is not the operator's API");
  // Only errors of Node itself have such a code. The error therefore shows that there was no answer.
  const noAnswer = code === Code.DeadlineExceeded || (cause instanceof Error && "code" in cause);
  return noAnswer ? unreachable(where, message) : new Refusal([`${where}: ${message}`]);
}

function unreachable(where: string, reason: string): Refusal {
  return new Refusal([
    `No jobgate answers at ${where}: ${reason}`,
    "Is `jobgate serve` running, and is this the operator address that it printed?",
  ]);
}

async function findOperator(
  selection: OperatorSelection,
): Promise<{ address: OperatorAddress; token: string | undefined }> {
  const token = process.env.JOBGATE_OPERATOR_TOKEN || undefined;
  if (selection.target !== undefined) return { address: parseTarget(selection.target), token };
  if (!existsSync(selection.config)) {
    throw new Refusal([
      `there is no ${selection.config}: name the configuration with -c, or a running jobgate's address with --target`,
    ]);
  }
  const { loadOperator } = await import("../config/load-config.ts");
  const file = { path: selection.config, env: process.env };
  const loaded = await loadOperator(file, token === undefined);
  if (!loaded.ok) throw await refusalOfMistakes(loaded.mistakes);
  const { operator } = loaded;
  if (operator.bindAddress.kind === "tcp" && operator.bindAddress.port === 0) {
    throw new Refusal([
      `${selection.config}: operator.bind_address has port 0; pass the port that jobgate printed with --target`,
    ]);
  }
  return { address: toAddress(operator.bindAddress), token: token ?? operator.tokens[0] };
}

function parseTarget(value: string): OperatorAddress {
  if (/^https?:\/\//.test(value) && URL.canParse(value)) {
    const { username, password } = new URL(value);
    if (username !== "" || password !== "") {
      throw new InvalidArgumentError(
        "--target: the URL holds a user or a password; expected one without, because jobgate accepts only its token.",
      );
    }
    return { url: value.replace(/\/+$/, "") };
  }
  const address = parseBindAddress(value);
  if (address === undefined)
    throw new InvalidArgumentError("--target: expected host:port, unix:PATH or a URL.");
  return toAddress(address);
}

function toAddress(address: BindAddress): OperatorAddress {
  return address.kind === "unix" ? { socketPath: address.path } : { url: localUrl(address) };
}

const registry = createRegistry(file_jobgate_v1_operator);

/** Returns the fields of a list's request that apply {@link FilterOptions}. */
export function filterRequest({ payer, since, until }: Omit<FilterOptions, "job">) {
  return defined({
    payer,
    since: since === undefined ? undefined : timestampFromMs(since),
    until: until === undefined ? undefined : timestampFromMs(until),
  });
}

/** Formats a message of the operator's API as one line of JSON, in the form that HTTP clients get. */
export function jsonLine(message: Message): string {
  const schema = registry.getMessage(message.$typeName);
  if (schema === undefined) throw new Error(`${message.$typeName} is not a message of the operator's API`);
  return toJsonString(schema, message, JSON_OPTIONS);
}

/** Formats a time in ISO 8601, in UTC and to the second. Returns a dash if there is no time. */
export function timeText(timestamp: Timestamp | undefined): string {
  return timestamp === undefined ? "-" : `${timestampDate(timestamp).toISOString().slice(0, 19)}Z`;
}

/** Name of a JobCall's state; a dash for a state that this version does not know. */
export function callStateText(state: CallState): string {
  return nameIn(CALL_STATES, state) ?? "-";
}

/** Name of a payment's state; a dash for a state that this version does not know. */
export function paymentStateText(state: PaymentState): string {
  return nameIn(PAYMENT_STATES, state) ?? "-";
}
