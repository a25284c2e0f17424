import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { Logger } from "pino";
import type { X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { isEndToEnd, namesIn } from "../../core/job-call.ts";
import { headersByName, keptHeaders } from "../../core/result-answer.ts";
import { createAddressFinder, type HttpRequest } from "../../http/request.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import { canonicalPath } from "../../x402/jobs/job-routes.ts";
import { HttpClient, type StreamedAnswer, wasSent } from "../outbound/http-client.ts";
import { REFUSALS } from "./api-answer.ts";
import { ApiLinks } from "./api-links.ts";
import { commonHeaders, traceparentOf } from "./api-request.ts";
import { type ApiConfig, serverOf } from "./config.ts";

/** Error code for an API that was reached and did not answer in time. */
const LATE = "UND_ERR_HEADERS_TIMEOUT";

/**
 * Time by which the timeout of the client's connection is longer than the API's timeout, so that the API's timeout ends
 * first.
 */
const MORE_MS = 1_000;

/** One request that is passed through. */
interface Passage {
  /** @throws GatewayError for a client that may pass no more requests now */
  readonly admit: () => void;
  readonly readBody: () => Promise<Uint8Array>;
  /** Counts the outcome: a status, or the code of a refusal. */
  readonly count: (code: string) => void;
}

/** Passes unpaid requests through to an API, as streams and without a store write. At most half of the API's concurrency are in progress. */
export class PassThrough {
  readonly #api: ApiConfig;
  readonly #publicUrl: string;
  readonly #client: HttpClient;
  readonly #links: ApiLinks;
  readonly #addressOf: ReturnType<typeof createAddressFinder>;
  readonly #logger: Logger;
  #inProgress = 0;

  constructor(
    api: ApiConfig,
    { publicUrl, trustedProxies = [] }: Pick<X402Config, "publicUrl" | "trustedProxies">,
    logger: Logger,
  ) {
    this.#api = api;
    this.#publicUrl = publicUrl;
    this.#client = new HttpClient(serverOf(api));
    this.#links = new ApiLinks(api.url, publicUrl);
    this.#addressOf = createAddressFinder(trustedProxies);
    this.#logger = logger;
  }

  /** Returns the address of a request's client. */
  clientOf(request: HttpRequest): string {
    return this.#addressOf(request) ?? request.remoteAddress;
  }

  /** @throws GatewayError refusals of `admit` and `readBody`, `api_busy`, `api_unreachable`, `api_timeout`, `api_refused` */
  async answer(request: HttpRequest, { admit, readBody, count }: Passage): Promise<RouteAnswer> {
    try {
      admit();
      const { status, send } = await this.#ask(request, readBody);
      count(String(status));
      return send;
    } catch (error) {
      count(error instanceof GatewayError ? error.code : "internal_error");
      throw error;
    }
  }

  /**
   * Closes the connections, and breaks off the requests in progress. A reload does not call this, so requests in progress
   * continue, and idle connections close by themselves.
   */
  close(): Promise<void> {
    return this.#client.close();
  }

  async #ask(
    request: HttpRequest,
    readBody: Passage["readBody"],
  ): Promise<{ readonly status: number; readonly send: RouteAnswer }> {
    const { concurrency, name } = this.#api;
    if (this.#inProgress >= Math.max(1, concurrency / 2))
      throw new GatewayError("api_busy", "The API has too many unpaid requests: try again.", {
        headers: { "retry-after": "2" },
      });
    this.#inProgress++;
    try {
      const body = await readBody();
      const target = targetOf(request);
      const answer = await this.#client.stream(
        { method: request.method, target, headers: this.#headersOf(request) },
        body.byteLength === 0 ? undefined : body,
        request.closed,
      );
      if (REFUSALS.has(answer.status)) {
        answer.body.destroy();
        throw new GatewayError("api_refused", `The API answered ${answer.status}.`);
      }
      return {
        status: answer.status,
        send: (_incoming, outgoing) => void this.#send(answer, target, outgoing),
      };
    } catch (error) {
      this.#inProgress--;
      if (error instanceof GatewayError) throw error;
      const { code, message } = error as NodeJS.ErrnoException;
      this.#logger.warn(
        { api: name, request: request.id, reason: code ?? message },
        "an API did not answer an unpaid request",
      );
      if (code === LATE) throw new GatewayError("api_timeout", "The API does not answer in time.");
      throw wasSent(error)
        ? new GatewayError("outcome_unknown", "The connection to the API broke before an answer.")
        : new GatewayError("api_unreachable", "The API cannot be reached: try again.");
    }
  }

  #headersOf(request: HttpRequest): Record<string, string> {
    const forwarded = namesIn([this.#api.forwardHeaders].flat(), request.headers).flatMap((name) => {
      const values = isEndToEnd(name) ? request.headerValues(name) : [];
      return values.length === 0 ? [] : [[name, values.join(", ")] as const];
    });
    return {
      ...Object.fromEntries(forwarded),
      ...this.#api.headers,
      ...commonHeaders(this.#publicUrl, this.clientOf(request)),
      traceparent: traceparentOf(request.headerValues("traceparent")),
    };
  }

  /**
   * Sends the answer as it arrives. If the answer breaks off, the client's connection is cut, so that the client does not
   * mistake a part for the whole. The connection of a client that does not read for a while is also cut, because it occupies
   * a place.
   */
  async #send(
    { status, headers, body }: StreamedAnswer,
    target: string,
    outgoing: ServerResponse,
  ): Promise<void> {
    try {
      // RFC 9110 §8.6: an answer 204 has no Content-Length.
      const names = status === 204 ? ["content-type"] : ["content-type", "content-length"];
      const type = headers.filter(([name]) => names.includes(name));
      outgoing.setTimeout(this.#api.timeoutMs + MORE_MS, () => outgoing.destroy());
      outgoing.writeHead(status, {
        ...headersByName([...this.#links.toPublic(keptHeaders(headers), target), ...type]),
        "cache-control": "private, no-store",
        "content-security-policy": "sandbox",
      });
      await pipeline(body, outgoing);
    } catch {
      outgoing.destroy();
    } finally {
      this.#inProgress--;
    }
  }
}

function targetOf({ path, query }: HttpRequest): string {
  return `${canonicalPath(path)}${query === "" ? "" : `?${query}`}`;
}
