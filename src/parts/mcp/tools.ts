import { createHash } from "node:crypto";
import { isLosslessNumber, stringify } from "lossless-json";
import type { JobBody } from "../../config/config.ts";
import { isJsonType } from "../../core/body-schema.ts";
import type { JobKey } from "../../core/job-call.ts";
import { defined, isObject } from "../../core/objects.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import { bodyExample, embeddedSchema, jsonSchemaOf } from "../../x402/jobs/job-body.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { requestAt, routeSchema } from "../../x402/jobs/route-arguments.ts";
import { callName, jobTitle, type Seller, saleText } from "../../x402/jobs/seller.ts";
import { RPC, RpcError } from "../../x402/protocols/json-rpc.ts";
import type { MessageInput } from "../../x402/protocols/message-request.ts";
import { outputSchema } from "./output-schema.ts";

/** Describes a job as a tool. */
export function toTool(job: ListedJob, seller: Pick<Seller, "promises">) {
  return {
    name: callName(job),
    title: jobTitle(job),
    description: saleText(job, seller, "call"),
    inputSchema: inputSchemaOf(job),
    ...defined({ outputSchema: outputSchema(job.output) }),
    execution: { taskSupport: "optional" },
    _meta: { "jobgate/url": job.url },
  };
}

function inputSchemaOf(job: ListedJob): { readonly required?: readonly string[] } {
  const { route, parameters } = job;
  const input = bodyInput(job);
  return route === undefined ? argumentsSchema(input) : routeSchema(route, input, parameters);
}

/** Returns the input of a job. If the job's JSON has no schema, the schema says what the price reads. */
function bodyInput({ input, price }: Pick<ListedJob, "input" | "price">): JobBody | undefined {
  const { bodySchema } = price?.range ?? {};
  const needsSchema = input !== undefined && input.schema === undefined && isJsonType(input.contentType);
  return needsSchema && bodySchema !== undefined ? { ...input, schema: bodySchema } : input;
}

/**
 * @throws RpcError for a purchase without the body that the tool requires. A call without a payment only requests the price
 *   of the tool.
 */
export function requireBody(args: unknown, tool: ListedJob): void {
  if (!inputSchemaOf(tool).required?.includes("body") || Object.hasOwn(Object(args), "body")) return;
  throw new RpcError(RPC.invalidParams, "arguments.body is missing. Nothing was charged.");
}

/** A body whose schema is an object is the arguments themselves; any other body is the argument `body`. */
function argumentsSchema(input: JobBody | undefined): object {
  if (hasBodyOfArguments(input))
    return withExample(((input && jsonSchemaOf(input)) as object | undefined) ?? { type: "object" }, input);
  const body =
    input?.schema === undefined
      ? { type: "string", description: `The job's input${input ? ` (${input.contentType})` : ""}` }
      : embeddedSchema(input, "/properties/body");
  const properties = { body: withExample(body, input) };
  return {
    ...{ type: "object", properties },
    ...(input && { required: ["body"] }),
    additionalProperties: false,
  };
}

/** Adds the example of an input to its schema, unless the schema has examples of its own. */
function withExample<Schema>(schema: Schema, input: JobBody | undefined): Schema | object {
  const example = input && bodyExample(input);
  return example === undefined || !isObject(schema) ? schema : { examples: [example], ...schema };
}

/**
 * Returns the request that a call's arguments make. It is a request at the tool's route. A tool without a route gets a
 * request at the URL with the job's IDs.
 * @param of `earlierHash` is the SHA-256 of the body that the call's payment bought earlier
 * @throws RpcError
 */
export function inputOf(
  args: unknown,
  job: JobKey,
  of: {
    readonly tool: ListedJob | undefined;
    readonly earlierHash: string | undefined;
    /** Query string of the message's own request, which no job takes. */
    readonly query: string;
  },
): MessageInput {
  const input = of.tool && bodyInput(of.tool);
  const route = of.tool?.route;
  if (route !== undefined) return requestAt(route, input, args);
  return {
    ...{ method: "POST", path: `/x402/jobs/${job.serviceId}/${job.jobIndex}`, query: of.query },
    ...bodyOf(args, input, of),
  };
}

/**
 * Returns the body that a call's arguments make, and its content type. An already known payment bought the earlier form of
 * the arguments. All other calls use the present form of the tool.
 */
function bodyOf(
  args: unknown,
  input: JobBody | undefined,
  { tool, earlierHash }: Pick<Parameters<typeof inputOf>[2], "tool" | "earlierHash">,
): Pick<MessageInput, "body" | "contentType"> {
  const { contentType = "text/plain; charset=utf-8" } = input ?? {};
  const forms = formsOf(args);
  const earlier = earlierHash === undefined ? undefined : forms.find((body) => sha256(body) === earlierHash);
  if (earlier !== undefined) return { body: earlier, contentType };
  if (tool === undefined) return { body: forms[0], contentType };
  const body = currentBodyOf(args, input);
  // A known payment is refused as what it is: a payment for other arguments.
  if (earlierHash === undefined) requireNoOthers(args, input);
  return { body, contentType };
}

/** Returns the body of a call in every form that {@link currentBodyOf} can give it. */
function formsOf(args: unknown): [Uint8Array, ...Uint8Array[]] {
  const { body = "" } = (args ?? {}) as { readonly body?: unknown };
  const json = jsonOf(args);
  return [json, jsonOf(body), ...(typeof body === "string" ? [Buffer.from(body)] : [])];
}

function sha256(body: Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

/** Returns the body of a call in the tool's form. @throws RpcError */
function currentBodyOf(args: unknown, input: JobBody | undefined): Uint8Array {
  if (!isObject(args) || isLosslessNumber(args))
    throw new RpcError(RPC.invalidParams, "arguments must be an object.");
  if (hasBodyOfArguments(input)) return jsonOf(args);
  const { body = "" } = args as { readonly body?: unknown };
  if (input?.schema !== undefined) return jsonOf(body);
  if (typeof body !== "string") throw new RpcError(RPC.invalidParams, "The argument body must be a string.");
  return Buffer.from(body);
}

/** Names of unknown arguments that a refusal lists, because a call can have any number of them. */
const MAX_NAMES = 5;

/** @throws RpcError for arguments that would be left out of the body */
function requireNoOthers(args: unknown, input: JobBody | undefined): void {
  if (hasBodyOfArguments(input)) return;
  const unknown = Object.keys(args as object).filter((name) => name !== "body");
  if (unknown.length === 0) return;
  const names = unknown.slice(0, MAX_NAMES).map((name) => `arguments.${name.slice(0, 100)}`);
  const problem = `${names.join(", ")}: unknown. The only argument of this tool is body.`;
  throw new RpcError(RPC.invalidParams, problem);
}

function jsonOf(value: unknown): Buffer {
  return Buffer.from(String(stringify(value)));
}

function hasBodyOfArguments(input: JobBody | undefined): boolean {
  if (input === undefined || !isJsonType(input.contentType)) return false;
  const schema = jsonSchemaOf(input) as { readonly type?: unknown } | undefined;
  return schema === undefined || schema.type === "object";
}

/** Shows a result as the content of a tool's answer. */
export function contentOf(callId: number, { contentType, body }: JobResult): object {
  const [type = ""] = contentType.toLowerCase().split(";");
  if (isJsonType(contentType) || type.startsWith("text/")) {
    const text = Buffer.from(body).toString();
    const json = isJsonType(contentType) ? parsed(text) : undefined;
    return { content: [{ type: "text", text }], ...(json && { structuredContent: json }) };
  }
  const data = Buffer.from(body).toString("base64");
  const kind = /^(image|audio)\//.exec(type)?.[1];
  if (kind !== undefined) return { content: [{ type: kind, data, mimeType: type }] };
  const resource = { uri: `jobgate://calls/${callId}/result`, mimeType: type, blob: data };
  return { content: [{ type: "resource", resource }] };
}

/** Parses an object, the only JSON that `structuredContent` can be. */
function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
