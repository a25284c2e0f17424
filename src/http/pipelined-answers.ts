import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

const queued = new WeakMap<Socket, Set<ServerResponse>>();

/**
 * Lets an answer that is queued behind others on its connection hear of that connection's end. Node tells only the
 * first in the queue; the rest would never close, and whoever waits for that would wait for ever.
 */
export function closeWithConnection({ socket }: IncomingMessage, outgoing: ServerResponse): void {
  // The first in the queue has the socket already.
  if (outgoing.socket !== null) return;
  const answers = queued.get(socket) ?? new Set();
  if (!queued.has(socket)) {
    queued.set(socket, answers);
    socket.once("close", () => {
      for (const answer of answers) answer.emit("close");
    });
  }
  answers.add(outgoing);
  outgoing.once("close", () => answers.delete(outgoing));
}
