import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import {
  type DescMessage,
  type DescMethod,
  type DescMethodUnary,
  type DescService,
  fromBinary,
  type Message,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { GrpcCall, type GrpcStatus } from "./grpc-call.ts";
import type { MessageListener } from "./message-reader.ts";

/** Serves a call of a method that takes one message. */
export type CallHandler = (request: Message, call: GrpcCall) => void;

/** Serves a call of a method that takes a stream of messages. Returns the listener that receives the messages. */
export type StreamHandler = (call: GrpcCall) => MessageListener;

/**
 * A service whose calls are answered on their HTTP/2 streams. grpc-js, which owns the connections and serves all other
 * services, makes a stream, an interceptor, four sets of metadata and about twenty closures for each call. That takes
 * 68 µs instead of 47.
 */
export class DirectService {
  /** Methods by their path. */
  readonly #methods = new Map<string, StreamHandler>();
  readonly #maxRequestBytes: number;
  readonly #refusal: (headers: IncomingHttpHeaders, stream: ServerHttp2Stream) => string | undefined;

  constructor(options: {
    readonly service: DescService;
    /** Handlers of methods that take one message, by the method's name in lowerCamelCase. */
    readonly handlers: Readonly<Record<string, CallHandler>>;
    /** Handlers of the other methods. A method without a handler is UNIMPLEMENTED. */
    readonly streamHandlers?: Readonly<Record<string, StreamHandler>>;
    /** Largest message of a request. */
    readonly maxRequestBytes: number;
    /** Returns the reason why a call is UNAUTHENTICATED, before its message is read; undefined if it is authenticated. */
    readonly refusal: (headers: IncomingHttpHeaders, stream: ServerHttp2Stream) => string | undefined;
  }) {
    const { service, handlers, streamHandlers = {} } = options;
    this.#maxRequestBytes = options.maxRequestBytes;
    this.#refusal = options.refusal;
    for (const method of service.methods) {
      const handler = handlers[method.localName];
      const streamHandler =
        handler === undefined ? streamHandlers[method.localName] : readingOneMessage(method, handler);
      if (streamHandler !== undefined)
        this.#methods.set(`/${service.typeName}/${method.name}`, streamHandler);
    }
  }

  /** Serves a call. @returns false, and does nothing, for a call of another service */
  serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
    const handler = this.#methods.get(headers[":path"] as string);
    if (handler === undefined || !headers["content-type"]?.startsWith("application/grpc")) return false;
    const call = new GrpcCall(stream, headers);
    const details = this.#refusal(headers, stream);
    if (details === undefined) call.read(handler(call), this.#maxRequestBytes);
    else call.end({ code: status.UNAUTHENTICATED, details });
    return true;
  }
}

/** Calls the handler once the message has arrived and nothing follows it. */
function readingOneMessage({ input }: DescMethod, handler: CallHandler): StreamHandler {
  return (call) => {
    let message: Buffer | undefined;
    const refuseCount = () =>
      call.end({ code: status.UNIMPLEMENTED, details: "The request must be exactly one message." });
    return {
      onMessage(bytes) {
        if (message === undefined) message = bytes;
        else refuseCount();
      },
      onEnd(isWhole) {
        if (message === undefined || !isWhole) refuseCount();
        else handle(message);
      },
    };

    function handle(bytes: Buffer): void {
      let request: Message;
      try {
        request = fromBinary(input, bytes);
      } catch {
        call.end({ code: status.INTERNAL, details: "The request is not the method's message." });
        return;
      }
      handler(request, call);
    }
  };
}

/** Makes a handler that ends the call with one message, or with the status of the error that `answer` rejects with. */
export function unary<Input extends DescMessage, Output extends DescMessage>(
  { output }: DescMethodUnary<Input, Output>,
  answer: (request: MessageShape<Input>) => Promise<MessageShape<Output>>,
  statusOf: (error: unknown, call: GrpcCall) => GrpcStatus,
): CallHandler {
  return (request, call) => {
    answer(request as MessageShape<Input>).then(
      (response) => call.answer(toBinary(output, response)),
      (error: unknown) => call.end(statusOf(error, call)),
    );
  };
}
