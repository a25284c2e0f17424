/* Takes the place of `undici`: requests of gateways to push targets and callback URLs, over connections in memory. */
import type { LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import type { Dispatcher } from "undici";
import { type Peer, peerOf } from "./peers.ts";
import { simulation } from "./simulation.ts";

type Handler = Required<Dispatcher.DispatchHandler>;

interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export class Pool {
  readonly #url: URL;
  readonly #lookup: LookupFunction | undefined;

  constructor(
    origin: string,
    { connect }: { readonly connect: { readonly timeout: number; readonly lookup?: LookupFunction } },
  ) {
    this.#url = new URL(origin);
    this.#lookup = connect.lookup;
  }

  dispatch(request: Request, given: Dispatcher.DispatchHandler): boolean {
    const handler = given as Handler;
    const run = simulation();
    const sender = run.current;
    const { host, hostname } = this.#url;
    const peer = peerOf(host);
    peer.sends(request);
    const connect = (error: Error | null, found: string | LookupAddress[]) => {
      if (error !== null) peer.ends?.(request);
      if (error !== null) return handler.onResponseError(undefined as never, error);
      const addresses = typeof found === "string" ? [found] : found.map(({ address }) => address);
      run.at(run.delay(`to ${host}`, 0.2, 40), sender, () => exchange(peer, request, handler, addresses));
    };
    if (this.#lookup === undefined) connect(null, "10.0.0.3");
    else this.#lookup(hostname, { all: true }, connect as never);
    return true;
  }

  destroy(): Promise<void> {
    return Promise.resolve();
  }
}

/** Sends a request and hands its answer to the handler. */
function exchange(peer: Peer, request: Request, handler: Handler, addresses: readonly string[]): void {
  const run = simulation();
  const sender = run.current;
  let isOver = false;
  const end = () => {
    isOver = true;
    peer.ends?.(request);
  };
  const fail = (code: string, isConnected: boolean) => {
    if (isOver) return;
    end();
    const error = Object.assign(new Error(code), { code });
    handler.onResponseError((isConnected ? controller : undefined) as never, error);
  };
  let isPaused = false;
  let onResume: () => void = () => undefined;
  const controller = {
    pause() {
      isPaused = true;
    },
    resume() {
      isPaused = false;
      onResume();
    },
    abort: () => void run.at(0, sender, () => fail("UND_ERR_ABORTED", true)),
  };
  if (!peer.isUp()) {
    fail("ECONNREFUSED", false);
    return;
  }
  handler.onRequestStart(controller as never, undefined as never);
  run.at(run.delay(`to ${peer.host}`, 0.2, 40), run.world, () => {
    const reset = () =>
      run.at(run.delay(`${peer.host} reset`, 1, 50), sender, () => fail("ECONNRESET", true));
    const isReset = run.fault(`a connection to ${peer.host} is reset before it takes the request`, 0.02);
    if (isReset || !peer.isUp()) return void reset();
    peer.take(request, addresses, (answer) => {
      if (answer === undefined || run.fault(`a connection to ${peer.host} is reset before it answers`, 0.02))
        return void reset();
      return void run.at(run.delay(`from ${peer.host}`, 0.2, 40), sender, () => {
        if (isOver) return;
        handler.onResponseStart(controller as never, answer.status, answer.headers ?? {}, "");
        const bytes = Buffer.from(answer.text ?? "");
        handler.onResponseData(
          controller as never,
          answer.isCut ? bytes.subarray(0, bytes.length / 2) : bytes,
        );
        if (answer.isCut) return fail("UND_ERR_SOCKET", true);
        onResume = () => {
          if (isOver) return;
          end();
          handler.onResponseEnd(controller as never, {});
        };
        if (!isPaused) onResume();
      });
    });
  });
}
