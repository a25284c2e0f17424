/* Takes the place of `src/node/json-endpoint.ts`: the same requests over the simulated network. */
import type { Answer, JsonEndpoint as RealEndpoint } from "../../../src/node/json-endpoint.ts";
import { currentNetwork } from "./network.ts";
import { simulation } from "./simulation.ts";

class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}

export class JsonEndpoint {
  readonly #url: URL;
  readonly #timeoutMs: number;

  constructor({ url, timeoutMs }: ConstructorParameters<typeof RealEndpoint>[0]) {
    this.#url = new URL(url);
    this.#timeoutMs = timeoutMs;
  }

  post(json: string): Promise<Answer> {
    return this.#send("POST", json);
  }

  get(): Promise<Answer> {
    return this.#send("GET", "");
  }

  #send(method: "GET" | "POST", body: string): Promise<Answer> {
    const run = simulation();
    return new Promise((resolve, reject) => {
      const timer = run.at(this.#timeoutMs, run.current, () =>
        reject(new TimeoutError(`no answer within ${this.#timeoutMs} ms`)),
      );
      currentNetwork().send(
        { method, url: this.#url, body },
        {
          onAnswer: (answer) => {
            timer.cancel();
            resolve(answer);
          },
          onError: (code) => {
            timer.cancel();
            reject(Object.assign(new Error(code), { code }));
          },
        },
      );
    });
  }
}
