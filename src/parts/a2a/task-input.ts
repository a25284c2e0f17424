import { createHash } from "node:crypto";
import { stringify } from "lossless-json";
import { isObject } from "../../core/objects.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { requestAt } from "../../x402/jobs/route-arguments.ts";
import { RPC, RpcError } from "../../x402/protocols/json-rpc.ts";
import type { MessageInput } from "../../x402/protocols/message-request.ts";
import type { SentPart } from "./params.ts";

const TEXT = "text/plain; charset=utf-8";
const BASE64 = /^[\w+/-]*={0,2}$/;

/**
 * Builds the request for a job from the parts of a message. Texts become the body, joined by line breaks. Data becomes
 * the body as JSON. If the job has a route, data instead holds the arguments of the request. A file becomes the body
 * byte for byte.
 * @throws RpcError
 */
export function inputOf(parts: readonly SentPart[], job: ListedJob): MessageInput {
  const { route, input, serviceId, jobIndex } = job;
  const sent = contentOf(parts);
  if (route !== undefined) {
    if (sent.kind === "data") return requestAt(route, input, sent.data, "message.parts[0].data");
    const { method, path, query } = requestAt(route, input, textOnly(sent.body), "message.parts[0]");
    return { method, path, query, body: sent.body, contentType: input?.contentType ?? sent.contentType };
  }
  const { body, contentType } =
    sent.kind === "data" ? { body: jsonOf(sent.data), contentType: "application/json" } : sent;
  return {
    ...{ method: "POST", path: `/x402/jobs/${serviceId}/${jobIndex}`, query: "" },
    ...{ body, contentType: input?.contentType ?? contentType },
  };
}

/** Returns the arguments of a request at a route whose only argument is the body. */
function textOnly(body: Uint8Array): object {
  return body.byteLength === 0 ? {} : { body: "" };
}

/** Returns the hash of a request, which identifies a task's input. */
export function hashOf({ method, path, query, contentType, body }: MessageInput): string {
  const head = JSON.stringify([method, path, query, contentType ?? null]);
  return createHash("sha256").update(`${head}\n`).update(body).digest("base64url");
}

type Content =
  | { readonly kind: "body"; readonly body: Uint8Array; readonly contentType: string }
  | { readonly kind: "data"; readonly data: unknown };

function contentOf(parts: readonly SentPart[]): Content {
  const kinds = parts.map(kindOf);
  if (kinds.every((kind) => kind === "text"))
    return {
      kind: "body",
      body: Buffer.from(parts.map(({ text = "" }) => text).join("\n")),
      contentType: TEXT,
    };
  const [part] = parts;
  if (part === undefined || parts.length > 1)
    throw wrong(`has ${kinds.join(", ")}: send texts alone, or one part with data or bytes`);
  switch (kindOf(part)) {
    case "data":
      return { kind: "data", data: dataOf(part) };
    case "bytes": {
      const encoded = part.raw ?? part.file?.bytes ?? "";
      if (!BASE64.test(encoded)) throw wrong("has bytes that are not base64");
      const contentType = part.mediaType ?? part.file?.mimeType ?? "application/octet-stream";
      return { kind: "body", body: Buffer.from(encoded, "base64"), contentType };
    }
    case "url":
      throw wrong("names a file by its URL, which jobgate does not read: send the bytes of the file");
    case "text":
    case "nothing":
      throw wrong("has a part without content: expected text, data or the bytes of a file");
  }
}

function kindOf(part: SentPart): "text" | "data" | "bytes" | "url" | "nothing" {
  if (part.text !== undefined) return "text";
  if (part.raw !== undefined || part.file?.bytes !== undefined) return "bytes";
  if (part.url !== undefined || part.file?.uri !== undefined) return "url";
  return part.data === undefined ? "nothing" : "data";
}

/** Returns the data of a part. A client of A2A 1.0 that speaks 0.3 sends data other than an object as `{"value": data}`. */
function dataOf({ data, metadata }: SentPart): unknown {
  return metadata?.data_part_compat === true && isObject(data) && "value" in data ? data.value : data;
}

function jsonOf(data: unknown): Uint8Array {
  return Buffer.from(String(stringify(data)));
}

function wrong(what: string): RpcError {
  return new RpcError(RPC.invalidParams, `message.parts ${what}.`);
}
