import type { Simulation } from "./simulation.ts";

export interface WireRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly body: string;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Answers a request later, or never. */
export type Server = (request: WireRequest, answer: (answer: WireAnswer) => void) => void;

/** Servers by host, for requests of gateways. Messages take time, and some are lost. */
export class Network {
  readonly #simulation: Simulation;
  readonly #servers = new Map<string, { readonly server: Server; readonly lossRate: number }>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  /** @param lossRate how often a request to it, or its answer, is lost */
  add(host: string, server: Server, lossRate = 0): void {
    this.#servers.set(host, { server, lossRate });
  }

  /** Sends a request from the process that runs now. */
  send(
    request: WireRequest,
    { onAnswer, onError }: { onAnswer: (answer: WireAnswer) => void; onError: (code: string) => void },
  ): void {
    const run = this.#simulation;
    const sender = run.current;
    const { host } = request.url;
    const found = this.#servers.get(host);
    if (found === undefined) throw new Error(`there is no ${host}`);
    const { server, lossRate } = found;
    const reset = () => run.at(run.delay(`${host} reset`, 1, 50), sender, () => onError("ECONNRESET"));
    run.at(run.delay(`to ${host}`, 0.2, 40), run.world, () => {
      if (run.fault(`a connection to ${host} is reset before it takes the request`, lossRate))
        return void reset();
      server(request, (answer) => {
        if (run.fault(`a connection to ${host} is reset before it answers`, lossRate)) return void reset();
        run.at(run.delay(`from ${host}`, 0.2, 40), sender, () => onAnswer(answer));
      });
    });
  }
}

let network: Network | undefined;

export function useNetwork(used: Network | undefined): void {
  network = used;
}

export function currentNetwork(): Network {
  if (network === undefined) throw new Error("no run has begun");
  return network;
}
