import { type ClientUnaryCall, Metadata, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import { splitCredentials } from "../chain/basic-auth.ts";
import { openEngineChannel } from "./engine-channel.ts";
import { type EngineMethod, RAW_ENGINE_METHODS } from "./engine-methods.ts";

/** How one call is made. */
export interface EngineCallOptions {
  readonly metadata?: Metadata;
  /** Unix milliseconds. */
  readonly deadline: Date;
  readonly signal?: AbortSignal;
}

/** All that came back from one call, whichever way it ended. */
export interface EngineAnswer {
  /** What was sent ahead of the message, if anything was. */
  readonly initialMetadata?: Metadata;
  /** Present exactly when the code is OK. */
  readonly message?: Buffer;
  /** How it ended, with the metadata that came at the end. */
  readonly status: StatusObject;
}

/**
 * The operator's pricing engine. Calls that come to UNAVAILABLE are tried up to three times, also if it is the engine's own
 * answer. They never reject: a call that failed is an answer with its code.
 */
export interface EngineClient {
  readonly call: (method: EngineMethod, request: Buffer, options: EngineCallOptions) => Promise<EngineAnswer>;
  /** Ends calls in hand. */
  stop(): void;
}

/** @param url `http://` or `https://`; credentials in it are sent with each call that has none of its own */
export function createEngineClient({ url }: { readonly url: string }): EngineClient {
  const target = splitCredentials(url);
  const client = openEngineChannel(target.url);
  const running = new Set<ClientUnaryCall>();
  let stopped = false;

  function withCredentials(metadata: Metadata): Metadata {
    const { authorization } = target.headers;
    if (authorization !== undefined && metadata.get("authorization").length === 0) {
      metadata.set("authorization", authorization);
    }
    return metadata;
  }

  function call(method: EngineMethod, request: Buffer, options: EngineCallOptions): Promise<EngineAnswer> {
    const { metadata = new Metadata(), deadline, signal } = options;
    if (stopped || signal?.aborted) return Promise.resolve({ status: cancelled() });
    return new Promise((resolve) => {
      const { path, requestSerialize, responseDeserialize } = RAW_ENGINE_METHODS[method];
      let initialMetadata: Metadata | undefined;
      let failure: ServiceError | null = null;
      let message: Buffer | undefined;
      const asked = client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        withCredentials(metadata.clone()),
        { deadline },
        (error, answer) => {
          failure = error;
          message = answer;
        },
      );
      const cancel = () => asked.cancel();
      running.add(asked);
      signal?.addEventListener("abort", cancel, { once: true });
      asked.on("metadata", (metadata) => {
        initialMetadata = metadata;
      });
      // Comes after the callback, which alone knows when an answer that is OK lacks its message.
      asked.on("status", (ended) => {
        running.delete(asked);
        signal?.removeEventListener("abort", cancel);
        const { code, details, metadata } = failure ?? ended;
        resolve({
          ...(initialMetadata === undefined ? {} : { initialMetadata }),
          ...(message === undefined ? {} : { message }),
          status: { code, details: decodeReserved(details), metadata },
        });
      });
    });
  }

  return {
    call,
    stop() {
      stopped = true;
      for (const asked of running) asked.cancel();
      client.close();
    },
  };
}

function cancelled(): StatusObject {
  return { code: status.CANCELLED, details: "The call was cancelled.", metadata: new Metadata() };
}

/**
 * grpc-js reads a status message with decodeURI, which leaves the escapes of `;/?:@&=+$,#` as they are. Of these, tonic,
 * which the stock engine is made with, escapes `#` and `?`; gRPC's rules and most other servers escape none, and so mean
 * an escape that is left. A text with a literal `%23` or `%3F` looks the same as an escaped one here and is decoded too;
 * from a server that escapes more, such as `/`, those escapes stay.
 */
function decodeReserved(details: string): string {
  return details.replace(/%(?:23|3F)/gi, decodeURIComponent);
}
