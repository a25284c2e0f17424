import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders as Http2Headers,
} from "node:http2";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { status } from "@grpc/grpc-js";
import { GatewayError } from "../core/errors.ts";

const CONTENT_TYPE = /^application\/grpc-web(-text)?(\+proto)?\s*(?:;|$)/i;
/** Headers of one HTTP/1.1 connection or message. HTTP/2 forbids most of them. */
const HOP_HEADERS = new Set([
  "accept-encoding",
  "connection",
  "content-length",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);
/** Headers of answers that only the listener itself may set for its origin. */
const ORIGIN_HEADER = /^(?:access-control-.*|set-cookie)$/;
/** First byte of the frame that holds the trailers. */
const TRAILERS_FLAG = 0x80;
const FRAME_HEADER_BYTES = 5;

/**
 * Answers a gRPC-Web call with a gRPC server's answer. Both protocols use the same frames, and gRPC-Web sends the trailers
 * as its last frame, so messages, metadata, deadline, status and cancellation pass unchanged.
 * @param connect returns a connection to the gRPC server
 * @throws GatewayError when the request is not a gRPC-Web call
 */
export async function answerGrpcWeb(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  connect: () => ClientHttp2Session,
): Promise<void> {
  const type = CONTENT_TYPE.exec(incoming.headers["content-type"] ?? "");
  if (type === null) {
    throw new GatewayError(
      "bad_request",
      "This is not a gRPC-Web call; expected the content type application/grpc-web+proto.",
    );
  }
  const [, text, format = ""] = type;
  const contentType = { "content-type": `application/grpc-web${text ?? ""}${format}` };
  const end = (code: status, details: string) =>
    outgoing.writeHead(200, { ...contentType, "grpc-status": code, "grpc-message": details }).end();
  try {
    if (await isEmpty(incoming)) {
      end(status.INVALID_ARGUMENT, "The body is empty; expected one message in a gRPC-Web frame.");
      return;
    }
    const stream = connect().request({
      ...passedHeaders(incoming.headers),
      ":method": "POST",
      ":path": incoming.url,
      "content-type": `application/grpc${format}`,
      te: "trailers",
    });
    // If the whole answer was sent, this call does nothing.
    const cancel = () => stream.close(constants.NGHTTP2_CANCEL);
    outgoing.once("close", cancel);
    const closed = new AbortController();
    stream.on("error", () => undefined);
    stream.once("close", () => {
      // Discards the rest of a request that the server has already answered.
      incoming.resume();
      closed.abort();
    });
    const responded = once(stream, "response", closed) as Promise<[Http2Headers, number]>;
    const frames = text === undefined ? incoming : Readable.from(decodeText(incoming));
    frames.on("error", cancel).pipe(stream);
    const [headers, flags] = await responded;
    outgoing.writeHead(200, { ...answerHeaders(headers), ...contentType });
    // A response without a body has its status in the headers.
    const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    const answer = Readable.from(isWhole ? [] : framesOf(stream, closed.signal));
    await (text === undefined ? pipeline(answer, outgoing) : pipeline(answer, encodeText, outgoing));
  } catch {
    // The connection is cut, so that half an answer does not pass for a whole one.
    if (outgoing.headersSent) outgoing.destroy();
    else end(status.UNAVAILABLE, "The call was cut off before it was answered.");
  }
}

/** Waits for the start of a body. */
async function isEmpty(body: Readable): Promise<boolean> {
  if (body.readableLength === 0) await once(body, "readable");
  return body.readableLength === 0;
}

/** Returns headers without the headers of the connection or the protocol. */
function passedHeaders(headers: IncomingHttpHeaders | Http2Headers): Record<string, string | string[]> {
  const passed: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !name.startsWith(":") && !HOP_HEADERS.has(name)) passed[name] = value;
  }
  return passed;
}

/** Returns the headers or trailers of an answer that a page can read. */
function answerHeaders(headers: Http2Headers): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(passedHeaders(headers)).filter(([name]) => !ORIGIN_HEADER.test(name)),
  );
}

/** Yields the frames of an answer, and then its trailers as a frame. */
async function* framesOf(stream: ClientHttp2Stream, closed: AbortSignal): AsyncGenerator<Buffer> {
  const trailers = once(stream, "trailers", { signal: closed }) as Promise<[Http2Headers]>;
  // The trailers are awaited only once the messages are over. Until then, a failure shows in the stream itself.
  trailers.catch(() => undefined);
  yield* stream as AsyncIterable<Buffer>;
  yield trailersFrame((await trailers)[0]);
}

function trailersFrame(trailers: Http2Headers): Buffer {
  const lines = Object.entries(answerHeaders(trailers)).flatMap(([name, values]) =>
    [values].flat().map((value) => `${name}: ${value}\r\n`),
  );
  const block = Buffer.from(lines.join(""), "latin1");
  const frame = Buffer.alloc(FRAME_HEADER_BYTES);
  frame.writeUInt8(TRAILERS_FLAG, 0);
  frame.writeUInt32BE(block.length, 1);
  return Buffer.concat([frame, block]);
}

/** Decodes base64 that may come as several padded parts, one after the other. */
async function* decodeText(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest = "";
  for await (const chunk of chunks) {
    const text = rest + chunk.toString("latin1");
    rest = text.slice(text.length - (text.length % 4));
    const parts = text.slice(0, text.length - rest.length).match(/[^=]+=*/g) ?? [];
    yield Buffer.concat(parts.map((part) => Buffer.from(part, "base64")));
  }
  yield Buffer.from(rest, "base64");
}

/** Encodes each frame as a padded part, so that no frame waits for the next. */
async function* encodeText(frames: AsyncIterable<Buffer>): AsyncGenerator<string> {
  for await (const frame of frames) yield frame.toString("base64");
}
