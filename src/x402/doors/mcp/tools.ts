import type { JobInput } from "../../../config/config.ts";
import { isJsonType } from "../../../core/body-schema.ts";
import type { JobResult } from "../../../store/contract/work-queue.ts";
import { embeddedSchema, inputSchema } from "../../catalogue/job-input.ts";
import type { ListedJob } from "../../catalogue/listing.ts";
import { asSentence, jobTitle, listedPriceText, optionText, PROMISES } from "../../catalogue/seller.ts";
import { RPC, RpcError } from "./json-rpc.ts";

export function toolName({ name, serviceId, jobIndex }: ListedJob): string {
  return name ?? `job-${serviceId}-${jobIndex}`;
}

/** Describes a job as a tool. */
export function toTool(job: ListedJob) {
  const { description, price, offers, onFailure, mode } = job;
  const facts = [
    asSentence(description ?? jobTitle(job)),
    price && `Costs ${listedPriceText(price)}${offers[0] ? ` (${optionText(offers[0])})` : ""} a call.`,
    onFailure && PROMISES[onFailure],
    mode === "restricted_paid" && "For permitted callers only.",
  ];
  return {
    name: toolName(job),
    title: jobTitle(job),
    description: facts.filter(Boolean).join(" "),
    inputSchema: argumentsSchema(job.input),
    execution: { taskSupport: "optional" },
    _meta: { "jobgate/url": job.url },
  };
}

/** A body whose schema is an object is the arguments themselves; any other body is the argument `body`. */
function argumentsSchema(input: JobInput | undefined): object {
  if (hasBodyOfArguments(input))
    return ((input && inputSchema(input)) as object | undefined) ?? { type: "object" };
  const body =
    input?.schema === undefined
      ? { type: "string", description: `The job's input${input ? ` (${input.contentType})` : ""}` }
      : embeddedSchema(input, "/properties/body");
  return { type: "object", properties: { body }, ...(input && { required: ["body"] }) };
}

/** Returns the body of a call. @throws RpcError */
export function bodyOf({ input }: ListedJob, args: unknown): Uint8Array {
  if (typeof args !== "object" || args === null || Array.isArray(args))
    throw new RpcError(RPC.invalidParams, "arguments must be an object.");
  if (hasBodyOfArguments(input)) return Buffer.from(JSON.stringify(args));
  const { body = "" } = args as { readonly body?: unknown };
  if (input?.schema !== undefined) return Buffer.from(JSON.stringify(body));
  if (typeof body !== "string") throw new RpcError(RPC.invalidParams, "The argument body must be a string.");
  return Buffer.from(body);
}

export function contentTypeOf({ input }: ListedJob): string {
  return input?.contentType ?? "text/plain; charset=utf-8";
}

function hasBodyOfArguments(input: JobInput | undefined): boolean {
  if (input === undefined || !isJsonType(input.contentType)) return false;
  const schema = inputSchema(input) as { readonly type?: unknown } | undefined;
  return schema === undefined || schema.type === "object";
}

/** Shows a result as the content of a tool's answer. */
export function contentOf(callId: number, result: JobResult | undefined): object {
  if (result === undefined) return { content: [] };
  const { contentType, body } = result;
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
