import type { Logger } from "pino";
import { HttpClient } from "../outbound/http-client.ts";
import { type ApiConfig, serverOf } from "./config.ts";

const PERIOD_MS = 2_000;
/** Consecutive failed health checks that take an API's routes off sale. A single failure may be a short stall. */
const MOST_FAILURES = 2;

/** Checks an API's health from time to time. An API without a health route is treated as working. */
export class ApiHealth {
  readonly #client: HttpClient | undefined;
  readonly #target: string | undefined;
  readonly #name: string;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #isUp = true;
  #failures = 0;
  #isStopped = false;

  constructor(api: ApiConfig, logger: Logger) {
    this.#name = api.name;
    this.#target = api.health?.split(" ")[1];
    this.#client =
      this.#target === undefined ? undefined : new HttpClient({ ...serverOf(api), concurrency: 1 });
    this.#logger = logger;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Starts the first check. Until the API has answered, it is treated as working. */
  start(): void {
    if (this.#client !== undefined) void this.#ask(this.#client);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#client?.close();
  }

  async #ask(client: HttpClient): Promise<void> {
    const request = client.send({
      ...{ method: "GET", target: this.#target, headers: {}, body: undefined },
      bodyLimit: () => 65_536,
    });
    const outcome = await request.outcome;
    if (this.#isStopped) return;
    const isGood = outcome?.kind === "answered" && outcome.answer.status < 400;
    this.#failures = isGood ? 0 : this.#failures + 1;
    const isUp = isGood || (this.#isUp && this.#failures < MOST_FAILURES);
    if (isUp !== this.#isUp)
      this.#logger.warn(
        { api: this.#name, outcome: outcome?.kind === "answered" ? outcome.answer.status : outcome?.kind },
        isUp ? "an API works again" : "an API does not work: its routes are not sold",
      );
    this.#isUp = isUp;
    this.#timer = setTimeout(() => void this.#ask(client), PERIOD_MS).unref();
  }
}
