import {
  type Client,
  type ClientUnaryCall,
  Metadata,
  type ServiceError,
  type StatusObject,
  status,
} from "@grpc/grpc-js";
import { splitCredentials } from "../../chain/basic-auth.ts";
import { measure, NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import { type EngineMethod, openEngineChannel, RAW_ENGINE_METHODS } from "./engine-channel.ts";

interface EngineCall {
  readonly metadata?: Metadata;
  readonly deadline: Date;
  readonly signal?: AbortSignal;
}

/** Answer to one call, successful or not. */
export interface EngineAnswer {
  /** Metadata sent ahead of the message, if any. */
  readonly initialMetadata?: Metadata | undefined;
  /** Present exactly when the code is OK. */
  readonly message?: Buffer | undefined;
  /** Status of the call, with the metadata that came at its end. */
  readonly status: StatusObject;
  /**
   * False when the engine did not answer. The text of the status is then from grpc-js, and names the engine's address.
   */
  readonly isFromEngine: boolean;
}

/**
 * An engine on tonic answers CANCELLED once the deadline that it was sent has passed. At about that time, the deadline
 * passes here as well.
 */
const DEADLINE_MARGIN_MS = 100;

/**
 * Client of the operator's pricing engine. A call with the status UNAVAILABLE is tried up to three times, even if it is
 * the engine's own answer. Calls never reject, because a failed call is an answer with its code.
 */
export class EngineClient {
  readonly #authorization: string | undefined;
  readonly #telemetry: Telemetry;
  readonly #client: Client;
  readonly #running = new Set<ClientUnaryCall>();
  #stopped = false;

  /** @param url `http://` or `https://`; its credentials are sent with each call that has none of its own */
  constructor(url: string, telemetry: Telemetry = NO_TELEMETRY) {
    const target = splitCredentials(url);
    this.#authorization = target.headers.authorization;
    this.#client = openEngineChannel(target.url);
    this.#telemetry = telemetry;
  }

  call(method: EngineMethod, request: Buffer, options: EngineCall): Promise<EngineAnswer> {
    return measure(
      this.#telemetry,
      {
        histogram: "jobgate_pricing_engine_call_duration_seconds",
        labels: (result) => ({
          method,
          code: status["value" in result ? result.value.status.code : status.UNKNOWN] ?? "UNKNOWN",
        }),
        span: "pricing_engine.call",
        attributes: { "rpc.method": method },
      },
      () => this.#call(method, request, options),
    );
  }

  /** Ends calls in progress. */
  stop(): void {
    this.#stopped = true;
    for (const call of this.#running) call.cancel();
    this.#client.close();
  }

  #call(method: EngineMethod, request: Buffer, options: EngineCall): Promise<EngineAnswer> {
    const { metadata = new Metadata(), deadline, signal } = options;
    if (this.#stopped || signal?.aborted) {
      return Promise.resolve({ status: cancelled(), isFromEngine: false });
    }
    return new Promise((resolve) => {
      const { path, requestSerialize, responseDeserialize } = RAW_ENGINE_METHODS[method];
      let initialMetadata: Metadata | undefined;
      let failure: ServiceError | null = null;
      let message: Buffer | undefined;
      const call = this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        this.#withCredentials(metadata),
        { deadline },
        (error, answer) => {
          failure = error;
          message = answer;
        },
      );
      const cancel = () => call.cancel();
      this.#running.add(call);
      signal?.addEventListener("abort", cancel, { once: true });
      call.on("metadata", (metadata) => {
        initialMetadata = metadata;
      });
      // This event comes after the callback, and only the callback shows that an OK answer lacks its message.
      call.on("status", (ended) => {
        this.#running.delete(call);
        signal?.removeEventListener("abort", cancel);
        const { code, details, metadata } = failure ?? ended;
        const isTimeout =
          code === status.CANCELLED &&
          !signal?.aborted &&
          Date.now() >= deadline.getTime() - DEADLINE_MARGIN_MS;
        resolve({
          initialMetadata,
          message,
          status: {
            code: isTimeout ? status.DEADLINE_EXCEEDED : code,
            details: decodeReserved(details),
            metadata,
          },
          // Every answer has a content type: in its leading metadata or, when it has no message, at its end.
          isFromEngine: initialMetadata !== undefined || metadata.get("content-type").length > 0,
        });
      });
    });
  }

  #withCredentials(given: Metadata): Metadata {
    const metadata = given.clone();
    if (this.#authorization !== undefined && metadata.get("authorization").length === 0) {
      metadata.set("authorization", this.#authorization);
    }
    return metadata;
  }
}

function cancelled(): StatusObject {
  return { code: status.CANCELLED, details: "The call was cancelled.", metadata: new Metadata() };
}

/**
 * Decodes the escapes of `#` and `?` that grpc-js leaves in a status message, because decodeURI keeps them. Only tonic,
 * which the stock engine uses, makes them. A literal `%23` or `%3F` looks the same, and is decoded too.
 */
function decodeReserved(details: string): string {
  return details.replace(/%(?:23|3F)/gi, decodeURIComponent);
}
