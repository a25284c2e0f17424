import { stringify } from "lossless-json";
import type { HttpRequest } from "../../http/request.ts";
import { type HttpResponse, jsonResponse, type StreamingResponse } from "../../http/response.ts";
import type { MethodHandlers } from "../../http/routes.ts";
import { parseMessage, RPC, RpcError, type RpcMessage, rpcError } from "../../x402/protocols/json-rpc.ts";
import type { A2aServer } from "./a2a-server.ts";
import { A2A_ERRORS } from "./context.ts";
import { EXTENSIONS } from "./payments.ts";

/** Headers that name extensions: the header of A2A 1.0 and the header of 0.3. */
const EXTENSION_HEADERS = ["a2a-extensions", "x-a2a-extensions"] as const;
const VERSION = /^(0\.3|1\.0)(\.\d+)?$/;

/** `/a2a`: A2A over JSON-RPC. */
export class A2aRoute {
  readonly #server: A2aServer;
  readonly #maxBytes: number;

  constructor(server: A2aServer, maxBodyBytes: number) {
    this.#server = server;
    // A body that is JSON within JSON may take twice its size.
    this.#maxBytes = 2 * maxBodyBytes + 65_536;
  }

  readonly handlers: MethodHandlers = { POST: (request) => this.#post(request) };

  async #post(request: HttpRequest): Promise<HttpResponse | StreamingResponse> {
    let message: RpcMessage | undefined;
    try {
      message = parseMessage(await request.readBody(this.#maxBytes));
      if (message?.id === undefined)
        throw new RpcError(
          RPC.invalidRequest,
          "The message has no id or no method; expected a JSON-RPC 2.0 request, which has both.",
        );
      requireVersion(request);
      return await this.#answer(request, message);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      return jsonResponse(400, rpcError(message?.id, error));
    }
  }

  /** @throws RpcError before anything is done */
  async #answer(request: HttpRequest, message: RpcMessage): Promise<HttpResponse | StreamingResponse> {
    const method = this.#server.method(message);
    const { extensions, headers } = extensionsOf(request);
    const listeners: (() => Promise<void>)[] = [];
    const onSent = async () => {
      for (const listener of listeners) await listener();
    };
    const whenSent = (listener: () => Promise<void>) => void listeners.push(listener);
    const context = { message, request, wire: method.wire, extensions, whenSent };
    if ("stream" in method) {
      const begun = await this.#server.begin(method.stream, context);
      if ("refusal" in begun) return jsonResponse(200, begun.refusal, headers);
      return { status: 200, headers: { ...EVENTS, ...headers }, stream: events(begun.responses), onSent };
    }
    const response = jsonResponse(200, await this.#server.answer(method.answer, context), headers);
    return listeners.length > 0 ? { ...response, onSent } : response;
  }
}

const EVENTS = {
  "content-type": "text/event-stream",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

async function* events(responses: AsyncIterable<object | undefined>): AsyncGenerator<string> {
  for await (const response of responses)
    yield response === undefined ? ":\n\n" : `data: ${stringify(response)}\n\n`;
}

/** @throws RpcError */
function requireVersion({ headers }: HttpRequest): void {
  const sent = headers["a2a-version"];
  if (sent === undefined || sent === "" || VERSION.test(String(sent))) return;
  throw new RpcError(
    A2A_ERRORS.versionNotSupported,
    `The header A2A-Version is ${JSON.stringify(sent)}; expected 1.0 or 0.3.`,
    { supported: ["1.0", "0.3"] },
  );
}

/** Returns the extensions that a request activates, and the headers of the answer that say so. */
function extensionsOf(request: HttpRequest) {
  const known = Object.values(EXTENSIONS);
  const byHeader = EXTENSION_HEADERS.flatMap((name) => {
    const sent = request.headerValues(name).flatMap((value) => value.split(",").map((uri) => uri.trim()));
    const activated = known.filter((uri) => sent.includes(uri));
    return activated.length > 0 ? [[name, activated] as const] : [];
  });
  return {
    extensions: byHeader.flatMap(([, uris]) => uris),
    headers: Object.fromEntries(byHeader.map(([name, uris]) => [name, uris.join(", ")])),
  };
}
