import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Logger } from "pino";
import type { X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { isEndToEnd, namesIn } from "../../core/request-headers.ts";
import { headersByName, keptHeaders } from "../../core/result-answer.ts";
import { parseRoute } from "../../core/route.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { createAddressFinder } from "../../http/client-address.ts";
import { RateLimit } from "../../http/rate-limit.ts";
import type { HttpRequest } from "../../http/request.ts";
import type { RouteAnswer } from "../../http/routes.ts";
import type { FreeRoute } from "../../x402/jobs/job-routes.ts";
import { canonicalPath } from "../../x402/jobs/route-tree.ts";
import { HttpClient, type StreamedAnswer } from "../outbound/http-client.ts";
import { REFUSALS } from "./api-answer.ts";
import { ApiLinks } from "./api-links.ts";
import { commonHeaders } from "./api-request.ts";
import { type ApiConfig, serverOf } from "./config.ts";

/** Code of the error of an API that was reached, and answered nothing in time. */
const LATE = "UND_ERR_HEADERS_TIMEOUT";

type FreeConfig = Pick<X402Config, "publicUrl" | "maxBodyBytes" | "trustedProxies">;

/** Passes the free routes of an API through, as streams, without a store write. */
export class FreeRoutes {
  readonly #api: ApiConfig;
  readonly #config: FreeConfig;
  readonly #client: HttpClient;
  readonly #links: ApiLinks;
  readonly #addressOf: ReturnType<typeof createAddressFinder>;
  readonly #rate = new RateLimit();
  readonly #telemetry: Pick<Telemetry, "count">;
  readonly #logger: Logger;
  #inProgress = 0;

  constructor(api: ApiConfig, config: FreeConfig, telemetry: Pick<Telemetry, "count">, logger: Logger) {
    this.#api = api;
    this.#config = config;
    this.#client = new HttpClient(serverOf(api));
    this.#links = new ApiLinks(api.url, config.publicUrl);
    this.#addressOf = createAddressFinder(config.trustedProxies ?? []);
    this.#telemetry = telemetry;
    this.#logger = logger;
  }

  get routes(): FreeRoute[] {
    return this.#api.free.flatMap((text) => {
      const route = parseRoute(text);
      return route === undefined ? [] : { route, answer: (request) => this.#counted(request) };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #counted(request: HttpRequest): Promise<RouteAnswer> {
    const count = (code: string) =>
      this.#telemetry.count("jobgate_api_free_requests_total", { api: this.#api.name, code });
    try {
      const { status, send } = await this.#answer(request);
      count(String(status));
      return send;
    } catch (error) {
      count(error instanceof GatewayError ? error.code : "internal_error");
      throw error;
    }
  }

  /** @throws GatewayError `rate_limited`, `api_busy`, `api_unreachable`, `api_timeout`, `api_refused` */
  async #answer(request: HttpRequest): Promise<{ readonly status: number; readonly send: RouteAnswer }> {
    const { concurrency, freeRate, name } = this.#api;
    const client = this.#addressOf(request) ?? request.remoteAddress;
    this.#rate.count(client, freeRate, "Too many free requests");
    if (this.#inProgress >= Math.max(1, concurrency / 2))
      throw new GatewayError("api_busy", "The API has too many free requests: try again.", {
        headers: { "retry-after": "2" },
      });
    this.#inProgress++;
    try {
      const body = await this.#bodyOf(request);
      const target = targetOf(request);
      const answer = await this.#client.stream(
        { method: request.method, target, headers: this.#headersOf(request, client) },
        body.byteLength === 0 ? undefined : Readable.from([body]),
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
      this.#logger.warn({ err: error, api: name }, "an API did not answer a free request");
      throw (error as NodeJS.ErrnoException).code === LATE
        ? new GatewayError("api_timeout", "The API does not answer in time: try again.")
        : new GatewayError("api_unreachable", "The API cannot be reached: try again.");
    }
  }

  #bodyOf(request: HttpRequest): Promise<Uint8Array> {
    return request.readBody(this.#config.maxBodyBytes);
  }

  #headersOf(request: HttpRequest, client: string): Record<string, string> {
    const forwarded = namesIn([this.#api.forwardHeaders].flat(), request.headers).flatMap((name) => {
      const values = isEndToEnd(name) ? request.headerValues(name) : [];
      return values.length === 0 ? [] : [[name, values.join(", ")] as const];
    });
    return {
      ...Object.fromEntries(forwarded),
      ...this.#api.headers,
      ...commonHeaders(this.#config.publicUrl, client),
    };
  }

  /** Sends the answer as it comes. A break cuts the connection, so that the client does not take a part for the whole. */
  async #send(
    { status, headers, body }: StreamedAnswer,
    target: string,
    outgoing: ServerResponse,
  ): Promise<void> {
    try {
      const type = headers.filter(([name]) => name === "content-type");
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
