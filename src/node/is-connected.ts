import type { Socket } from "node:net";

/** Node's handle of a TCP connection, which asks the system. */
interface Handle {
  getpeername?(into: object): number;
}

/**
 * Checks whether a connection stands whose client has closed its side. Node no longer reads there, so it does not see a
 * reset, and its public address is a copy. A Unix socket shows a reset by itself.
 */
export function isConnected(socket: Socket): boolean {
  if (socket.destroyed) return false;
  const { _handle: handle } = socket as Socket & { readonly _handle?: Handle | null };
  return (handle?.getpeername?.({}) ?? 0) === 0;
}
