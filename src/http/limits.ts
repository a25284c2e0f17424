/** Longest times of a server, in milliseconds. */
export const DEFAULT_TIMEOUTS = {
  /** Time a client has to send its headers. */
  headersMs: 10_000,
  /** Time a client has to send its whole request. */
  requestMs: 30_000,
  /** Time a connection may be idle between two requests. */
  keepAliveMs: 65_000,
  /** Silence after a written answer, without a reset, by which its client has taken it. Less than `keepAliveMs`. */
  quietMs: 30_000,
  /** Time after `unmount` that a client has to finish sending a request. */
  stopUploadMs: 5_000,
  /** Time after `unmount` that requests in progress have, settlements included, before their sockets are cut. */
  stopMs: 90_000,
};

export type HttpTimeouts = Readonly<typeof DEFAULT_TIMEOUTS>;

/** Most bytes of request line and headers together; a payment header is 1 to 4 KiB. */
export const MAX_HEADER_BYTES = 32 * 1024;
/** Silence before TCP probes whether the peer is still there. */
export const TCP_KEEP_ALIVE_MS = 30_000;
