import { once } from "node:events";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

/** A request as the proxy got it. */
export interface ProxiedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Methods of a JSON-RPC request, or of each in a batch; else none. */
  readonly rpcMethods: readonly string[];
}

/** An answer of the upstream, or in its place. */
export interface ProxiedAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Kind of fault. */
export type Fault =
  | { readonly kind: "pass" }
  /** The upstream gets the request late. */
  | { readonly kind: "delay-request"; readonly ms: number }
  /** The upstream gets the request once this is settled. */
  | { readonly kind: "hold-request"; readonly until: Promise<unknown> }
  /** The upstream gets the request at once, and the answer is delayed. */
  | { readonly kind: "delay-answer"; readonly ms: number }
  /** The upstream gets the request at once, and nothing is answered until the client hangs up. */
  | { readonly kind: "no-answer" }
  /** The connection is reset, and the upstream never gets the request. */
  | { readonly kind: "cut" }
  /** The upstream does its work, and the connection is reset instead of an answer. */
  | { readonly kind: "lose-answer" }
  /** The upstream never gets the request; this is the answer. */
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      /** Anything but text is sent as JSON. */
      readonly body: unknown;
    }
  /** The upstream does its work, and its answer is changed. */
  | {
      readonly kind: "change";
      readonly change: (
        answer: ProxiedAnswer,
        request: ProxiedRequest,
      ) => ProxiedAnswer | Promise<ProxiedAnswer>;
    }
  /** The upstream gets another body. */
  | { readonly kind: "rewrite"; readonly rewrite: (body: Buffer) => Buffer }
  /** Another upstream, an `http://host:port`, gets the request, and maybe another body. */
  | { readonly kind: "reroute"; readonly target: string; readonly rewrite?: (body: Buffer) => Buffer }
  /** The answer's body arrives one byte per interval. */
  | { readonly kind: "slow-body"; readonly everyMs: number }
  /** The connection is reset after so many bytes of the answer's body. */
  | { readonly kind: "truncate"; readonly bytes: number };

/** Answers a request with a fault. `upstream` forwards it and returns the real answer. */
export async function strike(
  fault: Fault,
  received: ProxiedRequest,
  response: ServerResponse,
  upstream: (rewritten?: Buffer, target?: string) => Promise<ProxiedAnswer>,
): Promise<void> {
  switch (fault.kind) {
    case "pass":
      return respond(response, await upstream());
    case "delay-request":
      await sleep(fault.ms, undefined, { ref: false });
      return respond(response, await upstream());
    case "hold-request":
      await Promise.allSettled([fault.until]);
      return respond(response, await upstream());
    case "delay-answer": {
      const answer = await upstream();
      await sleep(fault.ms, undefined, { ref: false });
      return respond(response, answer);
    }
    case "no-answer":
      await Promise.all([upstream(), once(response, "close")]);
      return;
    case "cut":
      response.socket?.resetAndDestroy();
      return;
    case "lose-answer":
      await upstream();
      response.socket?.resetAndDestroy();
      return;
    case "answer": {
      const { status, headers = {}, body } = fault;
      const isText = typeof body === "string";
      const type = { "content-type": isText ? "text/plain" : "application/json" };
      const bytes = Buffer.from(isText ? body : JSON.stringify(body));
      return respond(response, { status, headers: { ...type, ...headers }, body: bytes });
    }
    case "change":
      return respond(response, await fault.change(await upstream(), received));
    case "rewrite":
      return respond(response, await upstream(fault.rewrite(received.body)));
    case "reroute":
      return respond(response, await upstream(fault.rewrite?.(received.body), fault.target));
    case "slow-body": {
      const answer = await upstream();
      writeHead(response, answer);
      for (const byte of answer.body) {
        if (response.destroyed) return;
        response.write(Uint8Array.of(byte));
        await sleep(fault.everyMs, undefined, { ref: false });
      }
      response.end();
      return;
    }
    case "truncate": {
      const answer = await upstream();
      writeHead(response, answer);
      // Destroyed only once written: a reset may overtake what is still in the buffer.
      response.write(answer.body.subarray(0, fault.bytes), () => response.socket?.destroy());
      return;
    }
  }
}

function respond(response: ServerResponse, answer: ProxiedAnswer): void {
  writeHead(response, answer);
  response.end(answer.body);
}

function writeHead(response: ServerResponse, { status, headers, body }: ProxiedAnswer): void {
  const { "transfer-encoding": _framing, connection: _connection, "keep-alive": _kept, ...rest } = headers;
  response.writeHead(status, { ...rest, "content-length": body.length });
}
