import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { OnSent } from "./response.ts";

/** Time in which a client that closed its side in the middle of an answer resets the connection: a round trip, and more. */
const LEAVING_MS = 1_000;

/**
 * Answers that jobgate has written whole, but that the client may not have read: the kernel buffers hundreds of kilobytes, and
 * drops them when the connection breaks.
 */
export class UntakenAnswers {
  readonly #quietMs: number;
  readonly #bySocket = new WeakMap<Socket, Set<() => void | Promise<void>>>();

  /** @param quietMs milliseconds after which the client of an answer has taken it, if its connection stays silent */
  constructor(quietMs: number) {
    this.#quietMs = quietMs;
  }

  /**
   * Calls the listener once the client has taken the answer: the client sends another request, closes its side, or stays silent
   * for a time. Does not call it if the connection is reset, or jobgate closes it first.
   */
  watch(outgoing: ServerResponse, onTaken: NonNullable<OnSent>): void {
    // Before Node ends the connection of a last answer.
    outgoing.prependOnceListener("finish", () => {
      const { socket } = outgoing.req;
      if (!socket.destroyed) this.#watch(socket, onTaken);
    });
  }

  /** Notes that a client begins its next request. @returns what to wait for, so that the request finds the answers taken */
  next(socket: Socket): Promise<unknown> | undefined {
    const answers = this.#bySocket.get(socket);
    return answers && Promise.all(Array.from(answers, async (taken) => taken()));
  }

  #watch(socket: Socket, onTaken: NonNullable<OnSent>): void {
    const answers = this.#bySocket.get(socket) ?? new Set();
    this.#bySocket.set(socket, answers);
    const stop = () => {
      clearTimeout(timer);
      socket.off("end", onEnd).off("close", stop);
      answers.delete(taken);
      if (answers.size > 0) return;
      this.#bySocket.delete(socket);
      letEnd(socket);
    };
    const taken = () => {
      stop();
      return onTaken();
    };
    const decide = () => void (isConnected(socket) ? taken() : stop());
    const onEnd = () => {
      clearTimeout(timer);
      // Where both sides are closed, nothing shows a reset.
      if (socket.writableEnded) void taken();
      else timer = setTimeout(decide, LEAVING_MS).unref();
    };
    let timer = setTimeout(decide, this.#quietMs).unref();
    answers.add(taken);
    keepOpen(socket);
    socket.once("end", onEnd).once("close", stop);
  }
}

/** Connections that are kept open, and whether Node wanted to end them. */
const kept = new WeakMap<Socket, { isEnding: boolean }>();

/** Keeps a connection open whose client has closed its side: a reset shows only there. */
function keepOpen(socket: Socket): void {
  if (kept.has(socket)) return;
  const state = { isEnding: false };
  kept.set(socket, state);
  const end = (...last: unknown[]) => {
    if (socket.readableEnded && last.length === 0) state.isEnding = true;
    else Reflect.apply(Socket.prototype.end, socket, last);
    return socket;
  };
  const destroySoon = () => {
    state.isEnding = true;
    if (!socket.readableEnded) Reflect.apply(Socket.prototype.end, socket, []);
  };
  Object.assign(socket, { end, destroySoon });
}

function letEnd(socket: Socket): void {
  const { isEnding } = kept.get(socket) ?? { isEnding: false };
  kept.delete(socket);
  for (const name of ["end", "destroySoon"]) Reflect.deleteProperty(socket, name);
  if (isEnding) socket.destroySoon();
}

/** Node's handle of a TCP connection, which asks the system. */
interface Handle {
  getpeername?(into: object): number;
}

/**
 * Returns true if a half-closed connection still stands. Node stops reading after the client's FIN, so it does not notice a reset;
 * `getpeername` asks the kernel. A reset of a Unix socket closes it in Node.
 */
function isConnected(socket: Socket): boolean {
  if (socket.destroyed) return false;
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  return (handle?.getpeername?.({}) ?? 0) === 0;
}
