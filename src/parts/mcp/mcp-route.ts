import type { HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import {
  paramsAs,
  parseMessage,
  RPC,
  RpcError,
  type RpcMessage,
  rpcError,
} from "../../x402/protocols/json-rpc.ts";
import type { Context } from "./context.ts";
import type { McpServer } from "./mcp-server.ts";
import { PARAMS } from "./params.ts";
import type { Session, Sessions } from "./sessions.ts";
import { PROTOCOL_VERSIONS, type StatelessClient } from "./stateless.ts";

const LOOPBACK = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?$/;

/** `/mcp`: MCP's Streamable HTTP. The server sends no messages of its own, so GET has nothing to stream. */
export class McpRoute {
  readonly #server: McpServer;
  readonly #sessions: Sessions;
  readonly #origins: ReadonlySet<string>;
  readonly #maxBytes: number;

  constructor(parts: {
    readonly server: McpServer;
    readonly sessions: Sessions;
    readonly allowedOrigins: readonly string[];
    readonly publicUrl: string;
    readonly maxBodyBytes: number;
  }) {
    this.#server = parts.server;
    this.#sessions = parts.sessions;
    this.#origins = new Set([new URL(parts.publicUrl).origin, ...parts.allowedOrigins]);
    // A body that is JSON within JSON may take twice its size.
    this.#maxBytes = 2 * parts.maxBodyBytes + 65_536;
  }

  readonly handlers: MethodHandlers = {
    POST: (request) => this.#post(request),
    DELETE: (request) => this.#end(request),
  };

  async #post(request: HttpRequest): Promise<HttpResponse | StreamingResponse> {
    const refused = this.#refuseOrigin(request);
    if (refused !== undefined) return refused;
    let message: RpcMessage | undefined;
    let client: StatelessClient | undefined;
    try {
      message = parseMessage(await request.readBody(this.#maxBytes));
      if (message?.id !== undefined) client = this.#server.clientOf(message, request);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      return failure(error.code === RPC.methodNotFound ? 404 : 400, error, message?.id);
    }
    // A session header from an older version has no meaning for a message of the version without sessions.
    const session = client === undefined ? this.#sessionOf(request) : undefined;
    if (session === "unknown")
      return failure(404, new RpcError(RPC.refused, "There is no such session: begin one with initialize."));
    const version = request.headers["mcp-protocol-version"];
    if (version !== undefined && !PROTOCOL_VERSIONS.includes(String(version))) {
      return failure(
        400,
        new RpcError(RPC.refused, `MCP-Protocol-Version must be one of ${PROTOCOL_VERSIONS.join(", ")}.`),
      );
    }
    if (message?.id === undefined) return { status: 202, headers: { "cache-control": "no-store" }, body: "" };
    let headers = {};
    try {
      if (client === undefined && message.method === "initialize")
        headers = this.#newSession(request, message);
    } catch (error) {
      if (error instanceof RpcError) return jsonResponse(200, rpcError(message.id, error));
      throw error;
    }
    const listeners: (() => Promise<void>)[] = [];
    const onSent = async () => {
      for (const listener of listeners) await listener();
    };
    const context = {
      ...{ message, request, session, client },
      whenSent: (listener: () => Promise<void>) => void listeners.push(listener),
    };
    if (message.meta.progressToken !== undefined && acceptsEvents(request)) {
      return {
        status: 200,
        headers: { ...EVENTS, ...headers },
        stream: this.#stream(context),
        onSent,
      };
    }
    const answer = jsonResponse(200, await this.#server.answer(context), headers);
    return listeners.length > 0 ? { ...answer, onSent } : answer;
  }

  /** Streams progress, and then the answer. */
  async *#stream(context: Context): AsyncGenerator<string> {
    const notifications: object[] = [];
    let wake = () => {};
    const notify = (notification: object) => {
      notifications.push(notification);
      wake();
    };
    let answer: object | undefined;
    const answered = this.#server.answer({ ...context, notify }).then((done) => {
      answer = done;
      wake();
    });
    for (;;) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      for (const notification of notifications.splice(0)) yield event(notification);
      if (answer !== undefined) break;
      await Promise.race([woken, answered]);
    }
    yield event(answer);
  }

  #end(request: HttpRequest): HttpResponse {
    const refused = this.#refuseOrigin(request);
    if (refused !== undefined) return refused;
    const session = this.#sessionOf(request);
    if (session === "unknown" || session === undefined)
      return failure(404, new RpcError(RPC.refused, "There is no such session."));
    this.#sessions.end(session);
    return { status: 204, headers: { "cache-control": "no-store" }, body: "" };
  }

  /**
   * Refuses pages of other origins, because they could use a visitor's browser to reach hosts that they cannot reach
   * themselves (DNS rebinding).
   */
  #refuseOrigin({ headers }: HttpRequest): HttpResponse | undefined {
    const { origin } = headers;
    if (origin === undefined || this.#origins.has("*") || this.#origins.has(origin) || LOOPBACK.test(origin))
      return undefined;
    return failure(403, new RpcError(RPC.refused, "Pages of this origin may not use this server."));
  }

  #sessionOf(request: HttpRequest): Session | "unknown" | undefined {
    const ids = request.headerValues("mcp-session-id");
    if (ids.length === 0) return undefined;
    return this.#sessions.find(ids.join(", "), request.headers.origin) ?? "unknown";
  }

  /** @throws RpcError */
  #newSession({ headers }: HttpRequest, { params }: RpcMessage): Record<string, string> {
    const { capabilities } = paramsAs(PARAMS.initialize, params);
    const session = this.#sessions.begin(headers.origin, capabilities?.experimental?.payment !== undefined);
    return { "mcp-session-id": session.id };
  }
}

const EVENTS = {
  "content-type": "text/event-stream",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

function event(message: object): string {
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`;
}

function acceptsEvents({ headers }: HttpRequest): boolean {
  return headers.accept?.includes("text/event-stream") ?? false;
}

function failure(status: number, error: RpcError, id?: RpcMessage["id"]): HttpResponse {
  return jsonResponse(status, rpcError(id, error));
}
