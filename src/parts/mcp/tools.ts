import { createHash } from "node:crypto";
import type { JobInput } from "../../config/config.ts";
import { isJsonType } from "../../core/body-schema.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { JobResult } from "../../store/contract/work-queue.ts";
import { embeddedSchema, inputSchema } from "../../x402/jobs/job-input.ts";
import type { ListedJob } from "../../x402/jobs/listing.ts";
import { asSentence, jobTitle, listedPriceText, optionText, type Seller } from "../../x402/jobs/seller.ts";
import { RPC, RpcError } from "./json-rpc.ts";
import { requestAt, routeSchema } from "./route-tools.ts";
import type { ToolInput } from "./tool-payment.ts";

export function toolName({
  name,
  serviceId,
  jobIndex,
}: Pick<ListedJob, "name" | "serviceId" | "jobIndex">): string {
  return name ?? `job-${serviceId}-${jobIndex}`;
}

/** Describes a job as a tool. */
export function toTool(job: ListedJob, { promises }: Pick<Seller, "promises">) {
  const { description, price, offers, onFailure = "", access } = job;
  const facts = [
    asSentence(description ?? jobTitle(job)),
    price && `Costs ${listedPriceText(price)}${offers[0] ? ` (${optionText(offers[0])})` : ""} a call.`,
    promises.get(onFailure),
    access?.note,
  ];
  return {
    name: toolName(job),
    title: jobTitle(job),
    description: facts.filter(Boolean).join(" "),
    inputSchema:
      job.route === undefined
        ? argumentsSchema(job.input)
        : routeSchema(job.route, job.input, job.parameters),
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

/**
 * Returns the request that a call's arguments make: at the tool's route, or as if the job was bought at its ids.
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
): ToolInput {
  const { route, input } = of.tool ?? {};
  if (route !== undefined) return requestAt(route, input, args);
  return {
    ...{ method: "POST", path: `/x402/jobs/${job.serviceId}/${job.jobIndex}`, query: of.query },
    ...bodyOf(args, of),
  };
}

/**
 * Returns the body that a call's arguments make, and its content type. A payment that was seen before bought the form
 * that the arguments had then; all other calls have the form that the tool has now.
 */
function bodyOf(
  args: unknown,
  { tool, earlierHash }: Pick<Parameters<typeof inputOf>[2], "tool" | "earlierHash">,
): Pick<ToolInput, "body" | "contentType"> {
  const { contentType = "text/plain; charset=utf-8" } = tool?.input ?? {};
  const forms = formsOf(args);
  const earlier = earlierHash === undefined ? undefined : forms.find((body) => sha256(body) === earlierHash);
  if (earlier !== undefined) return { body: earlier, contentType };
  return { body: tool === undefined ? forms[0] : currentBodyOf(args, tool.input), contentType };
}

/** Returns the body of a call in every form that {@link currentBodyOf} can give it. */
function formsOf(args: unknown): [Uint8Array, ...Uint8Array[]] {
  const { body = "" } = (args ?? {}) as { readonly body?: unknown };
  const json = Buffer.from(JSON.stringify(args));
  return [json, Buffer.from(JSON.stringify(body)), ...(typeof body === "string" ? [Buffer.from(body)] : [])];
}

function sha256(body: Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}

/** Returns the body of a call in the tool's form. @throws RpcError */
function currentBodyOf(args: unknown, input: JobInput | undefined): Uint8Array {
  if (typeof args !== "object" || args === null || Array.isArray(args))
    throw new RpcError(RPC.invalidParams, "arguments must be an object.");
  if (hasBodyOfArguments(input)) return Buffer.from(JSON.stringify(args));
  const { body = "" } = args as { readonly body?: unknown };
  if (input?.schema !== undefined) return Buffer.from(JSON.stringify(body));
  if (typeof body !== "string") throw new RpcError(RPC.invalidParams, "The argument body must be a string.");
  return Buffer.from(body);
}

function hasBodyOfArguments(input: JobInput | undefined): boolean {
  if (input === undefined || !isJsonType(input.contentType)) return false;
  const schema = inputSchema(input) as { readonly type?: unknown } | undefined;
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
