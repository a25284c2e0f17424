import type { HttpResponse } from "../../../src/http/response.ts";
import type { Told } from "./protocols.ts";
import type { ClientRequest, Replica } from "./replica.ts";
import type { Simulation } from "./simulation.ts";

/** Time after which a client stops waiting for an answer. */
const PATIENCE_MS = 15_000;

/** Requests of one client, each to a gateway that it chooses by chance. */
export class Requests {
  readonly #simulation: Simulation;
  readonly #replicas: readonly Replica[];
  readonly #name: string;
  readonly #read: ((answer: HttpResponse) => Told) | undefined;

  constructor(parts: {
    readonly simulation: Simulation;
    readonly replicas: readonly Replica[];
    readonly name: string;
    /** Reads answers for the trace. Default: by their status. */
    readonly read?: (answer: HttpResponse) => Told;
  }) {
    this.#simulation = parts.simulation;
    this.#replicas = parts.replicas;
    this.#name = parts.name;
    this.#read = parts.read;
  }

  /**
   * @param what for the trace
   * @param onAnswer gets undefined when there is no answer
   * @param onSent gets every answer that the gateway has sent, also those that are lost
   * @returns false when nobody listens, and nothing was sent
   */
  send(
    request: ClientRequest,
    what: string,
    onAnswer: (answer: HttpResponse | undefined) => void,
    onSent: (answer: HttpResponse) => void = () => undefined,
  ): boolean {
    const [simulation, name] = [this.#simulation, this.#name];
    const replica = simulation.pick(`${name} chooses`, this.#replicas);
    if (replica.running === undefined) {
      this.later(300, () => onAnswer(undefined));
      return false;
    }
    let isOver = false;
    const end = (answer: HttpResponse | undefined) => {
      if (isOver) return;
      isOver = true;
      simulation.say(`${name} hears ${answer === undefined ? "nothing" : this.#describe(answer)}`);
      onAnswer(answer);
    };
    simulation.say(`${name} sends ${what}`);
    const hear = (answer: HttpResponse) => {
      if (!simulation.fault(`the answer to ${name} is lost`, 0.03)) end(answer);
    };
    replica.request(request, hear, onSent);
    this.later(PATIENCE_MS, () => end(undefined));
    return true;
  }

  #describe(answer: HttpResponse): string {
    const { status, body } = this.#read?.(answer) ?? { ...answer, body: { code: answer.refusal } };
    return [status, body.code ?? ""].join(" ");
  }

  later(delayMs: number, run: () => void): void {
    this.#simulation.at(delayMs, this.#simulation.world, run);
  }
}
