import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { listenHttp } from "./http-listener.ts";

/** One span as a collector receives it. Ids are lower-case hex. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first of its trace. */
  readonly parentSpanId: string;
  readonly name: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** 0 unset, 1 OK, 2 error. */
  readonly statusCode: number;
  /** Service of the process that sent it. */
  readonly resource: Readonly<Record<string, string | number | boolean>>;
}

/** A collector that takes OTLP over HTTP in protobuf. */
export interface OtlpReceiver {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** Every request's bytes, unpacked, one after the other as text. */
  readonly raw: string;
  stop(): Promise<void>;
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  let raw = "";
  async function receive(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const sent = await buffer(incoming);
    const bytes = incoming.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
    const isTraces =
      incoming.url === "/v1/traces" && incoming.headers["content-type"] === "application/x-protobuf";
    if (isTraces) {
      spans.push(...readRequest(bytes));
      raw += bytes.toString("latin1");
    }
    outgoing.writeHead(isTraces ? 200 : 404, { "content-type": "application/x-protobuf" }).end();
  }
  const listener = await listenHttp({
    handler: (incoming, outgoing) => {
      receive(incoming, outgoing).catch(() => outgoing.destroy());
    },
  });
  return {
    url: listener.url,
    spans,
    get raw() {
      return raw;
    },
    stop: () => listener.stop(),
  };
}

/** A message's fields by number. Nested messages, strings and bytes are bytes still. */
type Fields = ReadonlyMap<number, readonly (Uint8Array | bigint | number)[]>;

function readFields(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields = new Map<number, (Uint8Array | bigint | number)[]>();
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    const values = fields.get(field) ?? [];
    fields.set(field, values);
    if (type === WireType.LengthDelimited) values.push(reader.bytes());
    else if (type === WireType.Varint) values.push(BigInt(reader.int64()));
    else if (type === WireType.Bit64) values.push(reader.double());
    else if (type === WireType.Bit32) values.push(reader.fixed32());
    else throw new Error(`wire type ${type} in OTLP`);
  }
  return fields;
}

const nested = (fields: Fields, field: number) =>
  (fields.get(field) ?? []).map((bytes) => readFields(bytes as Uint8Array));
const bytesOf = (fields: Fields, field: number) => Buffer.from((fields.get(field)?.[0] ?? []) as Uint8Array);
const hex = (fields: Fields, field: number) => bytesOf(fields, field).toString("hex");
const text = (fields: Fields, field: number) => bytesOf(fields, field).toString();
const number = (fields: Fields, field: number) => Number(fields.get(field)?.[0] ?? 0);

/** https://github.com/open-telemetry/opentelemetry-proto, trace.proto and common.proto: the numbers are its fields'. */
function readRequest(bytes: Uint8Array): ReceivedSpan[] {
  return nested(readFields(bytes), 1).flatMap((resourceSpans) => {
    const resource = Object.assign(
      {},
      ...nested(resourceSpans, 1).map((fields) => readAttributes(fields, 1)),
    );
    return nested(resourceSpans, 2).flatMap((scopeSpans) =>
      nested(scopeSpans, 2).map((span) => ({ ...readSpan(span), resource })),
    );
  });
}

function readSpan(span: Fields): Omit<ReceivedSpan, "resource"> {
  return {
    traceId: hex(span, 1),
    spanId: hex(span, 2),
    parentSpanId: hex(span, 4),
    name: text(span, 5),
    kind: number(span, 6),
    attributes: readAttributes(span, 9),
    links: nested(span, 13).map((link) => ({ traceId: hex(link, 1), spanId: hex(link, 2) })),
    statusCode: nested(span, 15).reduce((_, status) => number(status, 3), 0),
  };
}

function readAttributes(fields: Fields, field: number): Record<string, string | number | boolean> {
  return Object.fromEntries(
    nested(fields, field).map((attribute) => {
      const [value = new Map()] = nested(attribute, 2);
      return [text(attribute, 1), readValue(value)];
    }),
  );
}

function readValue(value: Fields): string | number | boolean {
  if (value.has(1)) return text(value, 1);
  if (value.has(2)) return number(value, 2) === 1;
  return value.has(3) ? number(value, 3) : number(value, 4);
}
