import { createHash } from "node:crypto";
import type { Logger } from "pino";
import type { JobKey } from "../../core/job-call.ts";
import { RateLimit } from "../../http/limits.ts";
import { type AskedRequest, QUESTIONS } from "../../x402/prices/request-prices.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";
import { HttpClient } from "../outbound/http-client.ts";
import { placeOf } from "../outbound/http-server.ts";
import { MAX_ANSWER_BYTES } from "./pricer-answer.ts";

/** Address of a pricer, and the time limit of one request. */
export interface PricerAddress {
  readonly url: string;
  readonly timeoutMs: number;
}

/** Most bytes of a buyer's body that the pricer receives. */
const MAX_BODY_BYTES = 64 * 1024;
const SECS_BETWEEN_WARNINGS = 10;

/** HTTP client of an operator's program that makes prices. */
export class Pricer {
  readonly #client: HttpClient;
  readonly #logger: Logger;
  readonly #warnings = new RateLimit(SECS_BETWEEN_WARNINGS);
  readonly #asking = new Set<Promise<unknown>>();

  constructor({ url, timeoutMs }: PricerAddress, logger: Logger) {
    this.#client = new HttpClient({ ...placeOf(url), concurrency: QUESTIONS.total, timeoutMs });
    this.#logger = logger;
  }

  /** Requests the price of one request from the program. */
  ask(job: JobKey, asked: AskedRequest): Promise<HttpOutcome | undefined> {
    const { outcome } = this.#client.send({
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: Buffer.from(JSON.stringify(questionOf(job, asked))),
      bodyLimit: () => MAX_ANSWER_BYTES,
    });
    this.#asking.add(outcome);
    return outcome.finally(() => this.#asking.delete(outcome));
  }

  /** Logs why the program returned no price, at most once in {@link SECS_BETWEEN_WARNINGS}. */
  warn({ serviceId, jobIndex }: JobKey, problem: string): void {
    if (this.#warnings.exceeded("all", 1) !== undefined) return;
    this.#logger.warn({ job: `${serviceId}/${jobIndex}`, problem }, "the price program returned no price");
  }

  /** Closes the connections after the requests in progress. */
  async close(): Promise<void> {
    await Promise.all(this.#asking);
    await this.#client.close();
  }
}

function questionOf({ serviceId, jobIndex }: JobKey, asked: AskedRequest): object {
  const { method, path, query, params, body } = asked;
  const [contentType] = asked.headerValues("content-type");
  return {
    service_id: serviceId.toString(),
    job_index: jobIndex,
    method,
    path,
    query,
    params: Object.fromEntries(params),
    content_type: contentType ?? null,
    size: body.length,
    sha256: createHash("sha256").update(body).digest("hex"),
    body: body.length > MAX_BODY_BYTES ? undefined : Buffer.from(body).toString("base64"),
  };
}
