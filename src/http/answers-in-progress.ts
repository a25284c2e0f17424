import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { GatewayError } from "../core/errors.ts";
import { hangUpWith, isGone, type RefusalParts, refuseBrokenRequest } from "./answer.ts";

/** An answer that is not sent yet, or whose route has more to do. */
interface AnswerInProgress {
  readonly incoming: IncomingMessage;
  /** Resolves once it is over. Never rejects. */
  readonly ended: Promise<void>;
}

/** Answers in progress on the connections of a server, so that none is lost to what follows its request. */
export class AnswersInProgress {
  readonly #answers = new Set<AnswerInProgress>();
  /** Connections with a malformed request that is answered after those before it. */
  readonly #refusing = new WeakSet<Duplex>();

  get size(): number {
    return this.#answers.size;
  }

  add(answer: AnswerInProgress): void {
    this.#answers.add(answer);
  }

  /** @returns false if it was not in progress */
  delete(answer: AnswerInProgress): boolean {
    return this.#answers.delete(answer);
  }

  /** Resolves once the answers that are in progress now are over. */
  async settle(): Promise<void> {
    await Promise.all(Array.from(this.#answers, ({ ended }) => ended));
  }

  /** Cuts the connections whose request has not arrived whole. */
  cutUploads(): void {
    for (const { incoming } of this.#answers) if (!incoming.complete) incoming.socket.destroy();
  }

  /**
   * Lets clients close their side after a whole request, and answers CONNECT and malformed requests after the requests
   * that arrived whole before them.
   */
  protect(
    server: Server,
    options: {
      /** Methods to name in the refusal of CONNECT. */
      readonly allow: string;
      /** Completes the refusal of a request. Its headers have not always arrived. */
      readonly refusalParts?: (incoming: IncomingMessage | undefined) => RefusalParts;
      /** Called for each refusal of a request that cannot be recorded as itself. */
      readonly onRefused?: (refusal: GatewayError) => void;
    },
  ): void {
    const { allow, refusalParts, onRefused } = options;
    // A client may close his side once his request is whole, as `nc -N` and some proxies do, and still read the answer.
    Object.assign(server, { httpAllowHalfOpen: true });
    // Each pipelined request may listen for the client's end.
    server.on("connection", (socket) => socket.setMaxListeners(0));
    server.on("connect", (incoming, socket) => {
      const message = "CONNECT is not supported: this is not a proxy.";
      const refusal = new GatewayError("method_not_allowed", message, { headers: { allow } });
      onRefused?.(refusal);
      socket.on("error", () => socket.destroy());
      void this.#settleOn(socket).then(() => hangUpWith(refusal, socket, refusalParts?.(incoming)));
    });
    const refuse = async (error: Error, socket: Duplex): Promise<void> => {
      if (this.#refusing.has(socket)) return;
      this.#refusing.add(socket);
      // The refusal would pass for the answer to an earlier request that is still in progress.
      if (!isGone(error, socket)) await this.#settleOn(socket);
      const incoming = this.#firstOn(socket);
      const refusal = refuseBrokenRequest(error, socket, refusalParts?.(incoming));
      // A request that began well is recorded as itself.
      if (refusal !== undefined && incoming === undefined) onRefused?.(refusal);
    };
    server.on("clientError", (error, socket) => void refuse(error, socket));
  }

  #firstOn(socket: Duplex): IncomingMessage | undefined {
    for (const { incoming } of this.#answers) if (incoming.socket === socket) return incoming;
    return undefined;
  }

  /** Resolves once the requests that arrived whole on this connection are answered. */
  async #settleOn(socket: Duplex): Promise<void> {
    const whole = [...this.#answers].filter(
      ({ incoming }) => incoming.socket === socket && incoming.complete,
    );
    await Promise.all(whole.map(({ ended }) => ended));
  }
}
