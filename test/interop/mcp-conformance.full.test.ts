import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { create } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { ExtendRequestSchema, type JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { type PaidGateway, startPaidGateway } from "../e2e/paid-gateway.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import type { ProxiedRequest } from "../helpers/fault.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import type { JobOutcome } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { testFolder } from "../helpers/test-folder.ts";

// Installed apart, by `npm ci --prefix test/interop/agents`.
const SUITE = fileURLToPath(
  new URL("agents/node_modules/@modelcontextprotocol/conformance/dist/", import.meta.url),
);
/** Versions of MCP with a list of required scenarios: the last with sessions, and the one without. */
const VERSIONS = ["2025-11-25", "2026-07-28"];

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }, {}] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ["phone"] },
  else: {},
  additionalProperties: false,
};

/** The suite expects that its failing tool takes a while. */
const FAILS_AFTER_MS = 1_000;

/** Jobs that do what the suite expects of its tools, in order. */
const TOOLS: Record<string, (call: JobCall) => JobOutcome | Promise<JobOutcome>> = {
  test_simple_text: () => ({
    body: Buffer.from("This is a simple text response for testing."),
    contentType: "text/plain",
  }),
  test_image_content: () => ({ body: Buffer.from([1, 2, 3]), contentType: "image/png" }),
  test_audio_content: () => ({ body: Buffer.from([1, 2, 3]), contentType: "audio/wav" }),
  test_embedded_resource: () => ({ body: Buffer.from([1, 2, 3]), contentType: "application/zip" }),
  test_error_handling: () => {
    throw new Fail("This tool intentionally returns an error for testing");
  },
  json_schema_2020_12_tool: () => undefined,
  test_tool_with_progress: reportProgress,
  greet: () => ({ body: Buffer.from("Hello, World!"), contentType: "text/plain" }),
  slow_compute: async ({ body }) => {
    const { seconds = 0 } = JSON.parse(Buffer.from(body).toString()) as { readonly seconds?: number };
    await sleep(Math.min(seconds, 3) * 1_000);
    return { body: Buffer.from("done"), contentType: "text/plain" };
  },
  failing_job: async () => {
    await sleep(FAILS_AFTER_MS);
    throw new Fail("no luck");
  },
};
/** Names of jobs have no underscores. */
const jobNameOf = (tool: string) => tool.replaceAll("_", "-");

const ASKS_NOTHING = "asks nothing of clients";
const NO_PROMPTS = "has no prompts";
const NO_RESOURCES = "has no resources";
const WAITS = "makes a task of a call only once it has waited 50 s for the result";

/** Scenarios and checks of what jobgate does not have, with the reason. */
const NOT_FOR_JOBGATE: Record<string, string> = {
  "logging-set-level": "sends no logs to clients",
  "tools-call-with-logging": "sends no logs to clients",
  "sep-2575-server-no-log-without-loglevel": "sends no logs to clients",
  "completion-complete": "has no prompts or resources, whose arguments could be completed",
  "tools-call-mixed-content": "gives the one result of a job",
  "tools-call-sampling": ASKS_NOTHING,
  "tools-call-elicitation": ASKS_NOTHING,
  "elicitation-sep1034-defaults": ASKS_NOTHING,
  "elicitation-sep1330-enums": ASKS_NOTHING,
  "input-required-result-basic-elicitation": ASKS_NOTHING,
  "input-required-result-basic-sampling": ASKS_NOTHING,
  "input-required-result-basic-list-roots": ASKS_NOTHING,
  "input-required-result-request-state": ASKS_NOTHING,
  "input-required-result-multiple-input-requests": ASKS_NOTHING,
  "input-required-result-multi-round": ASKS_NOTHING,
  "input-required-result-non-tool-request": ASKS_NOTHING,
  "input-required-result-result-type": ASKS_NOTHING,
  "input-required-result-tampered-state": ASKS_NOTHING,
  "input-required-result-capability-check": ASKS_NOTHING,
  "input-required-result-ignore-extra-params": ASKS_NOTHING,
  "input-required-result-missing-input-response": ASKS_NOTHING,
  "tasks-mrtr-input": ASKS_NOTHING,
  "tasks-mrtr-composition": ASKS_NOTHING,
  "tasks-result-type-complete-on-non-task-responses": ASKS_NOTHING,
  "sep-2575-server-rejects-undeclared-capability": ASKS_NOTHING,
  "sep-2575-missing-capability-http-400": ASKS_NOTHING,
  "sep-2575-http-server-no-independent-requests-on-stream": ASKS_NOTHING,
  "http-custom-header-server-validation": "repeats no argument of a tool in a header",
  "tasks-lifecycle": WAITS,
  "tasks-wire-fields": WAITS,
  "tasks-request-state-removal": WAITS,
  "tasks-request-headers": WAITS,
  "tasks-required-task-error": WAITS,
  "tasks-per-request-meta-opt-in": WAITS,
  "tasks-server-directed-creation-no-hint": WAITS,
  "sep-2663-durable-create-strong-consistency": WAITS,
  "resources-list": NO_RESOURCES,
  "resources-read-text": NO_RESOURCES,
  "resources-read-binary": NO_RESOURCES,
  "resources-templates-read": NO_RESOURCES,
  "resources-subscribe": NO_RESOURCES,
  "resources-unsubscribe": NO_RESOURCES,
  "sep-2549-resources-list-caching-hints": NO_RESOURCES,
  "sep-2549-resources-templates-list-caching-hints": NO_RESOURCES,
  "sep-2164-resource-not-found": NO_RESOURCES,
  "prompts-list": NO_PROMPTS,
  "prompts-get-simple": NO_PROMPTS,
  "prompts-get-with-args": NO_PROMPTS,
  "prompts-get-embedded-resource": NO_PROMPTS,
  "prompts-get-with-image": NO_PROMPTS,
  "sep-2549-prompts-list-caching-hints": NO_PROMPTS,
};

const parts = startBeforeAll(startPaidParts);
let gateway: PaidGateway;
/** Text of the stream with progress, as far as it has come. */
let streamed = "";

/** Each step comes once the one before has reached the client: a step that another follows at once is left out. */
async function reportProgress({ callId, leaseToken }: JobCall): Promise<JobOutcome> {
  for (const percent of [0, 50, 100]) {
    const leases = [{ callId, leaseToken, progress: { percent } }];
    await gateway.runner.extend(create(ExtendRequestSchema, { leases }));
    await expect.poll(() => streamed).toContain(`"progress":${percent},`);
  }
  return { body: Buffer.from("done"), contentType: "text/plain" };
}

async function startShop(): Promise<void> {
  const schema = join(await testFolder(), "schema.json");
  await writeFile(schema, JSON.stringify(SCHEMA));
  const jobTable = (tool: string, index: number) => `
[[jobs]]
job_index = ${index}
name = "${jobNameOf(tool)}"
mode = "public_paid"
price_wei = "1000000000000000"
input = { content_type = "application/json"${tool.startsWith("json") ? `, schema = "${schema}"` : ""} }
`;
  const jobs = Object.keys(TOOLS).map(jobTable).join("");
  gateway = await startPaidGateway({
    parts,
    setUp: "no rpc_url",
    handle: (call) => Object.values(TOOLS)[Number(call.jobId)]?.(call),
    edit: (config) => config.replace(/\[job_pricing\.1\][\s\S]*/, jobs),
  });
  onTestFinished(() => gateway.stop());
}

/** Pays for the calls of the suite, which cannot, and takes its tools' names for those of the jobs. */
async function startPayer(): Promise<string> {
  const proxy = await startFaultProxy({ target: gateway.jobgate.x402Url });
  onTestFinished(() => proxy.stop());
  const renamed = (body: Buffer) =>
    Object.keys(TOOLS).reduce(
      (text, tool) => text.replaceAll(`"${jobNameOf(tool)}"`, `"${tool}"`),
      String(body),
    );
  proxy.add({
    rpcMethod: "tools/call",
    async fault({ path, headers, body }) {
      const call = JSON.parse(String(body));
      const job = Object.keys(TOOLS).indexOf(call.params.name);
      if (job < 0) return { kind: "pass" };
      const { payload } = await gateway.sign({ job, body: "{}" });
      const { name: tool } = call.params;
      call.params.name = jobNameOf(tool);
      const renamed = { ...headers, ...(headers["mcp-name"] === tool && { "mcp-name": call.params.name }) };
      call.params._meta = { ...call.params._meta, "x402/payment": payload };
      return answerTo(path, renamed, call);
    },
  });
  proxy.add({
    rpcMethod: "tools/list",
    fault: {
      kind: "change",
      change: (answer) => ({ ...answer, body: Buffer.from(renamed(answer.body)) }),
    },
  });
  return `${proxy.url}/mcp`;
}

/** Sends a call under its job's name, and reads the answer as it comes: the proxy passes it on at its end. */
async function answerTo(path: string, headers: ProxiedRequest["headers"], call: object) {
  const sent = Object.entries(headers).filter(([name]) => name.startsWith("mcp-") || name === "accept");
  const response = await fetch(new URL(path, gateway.jobgate.x402Url), {
    method: "POST",
    headers: Object.fromEntries(sent) as Record<string, string>,
    body: JSON.stringify(call),
  });
  const stream = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream());
  streamed = "";
  for await (const text of stream) streamed += text;
  const type = { "content-type": response.headers.get("content-type") ?? "" };
  return { kind: "answer", status: response.status, headers: type, body: streamed } as const;
}

interface Check {
  readonly id: string;
  readonly status: "SUCCESS" | "FAILURE" | "WARNING" | "SKIPPED" | "INFO";
  readonly errorMessage?: string;
}

/** Runs what a version requires. @returns the checks of each scenario */
async function runSuite(url: string, version: string): Promise<ReadonlyMap<string, readonly Check[]>> {
  // Node 20 has no globSync, which only the suite's other commands use.
  const program = `${SUITE}for-node-20.js`;
  await writeFile(program, (await readFile(`${SUITE}index.js`, "utf8")).replace(/globSync as [a-z]+,/, ""));
  const folder = await testFolder();
  const args = [program, "server", "--url", url, "--requirements", version, "--output-dir", folder];
  const printed = await new Promise<string>((resolve) => {
    // It ends with 1 when a scenario fails.
    execFile(process.execPath, args, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
  const scenarios = await readdir(folder);
  if (scenarios.length === 0) throw new Error(printed);
  return new Map(
    await Promise.all(
      scenarios.map(async (name): Promise<[string, readonly Check[]]> => {
        const [, scenario = name] = /^server-(.+?)-\d{4}-\d\d-\d\dT/.exec(name) ?? [];
        return [scenario, JSON.parse(await readFile(join(folder, name, "checks.json"), "utf8"))];
      }),
    ),
  );
}

it("The MCP conformance suite passes in all that jobgate has, with sessions and without", async () => {
  await startShop();
  const url = await startPayer();
  const unused = new Set(Object.keys(NOT_FOR_JOBGATE));
  const failed: string[] = [];
  for (const version of VERSIONS) {
    for (const [scenario, checks] of await runSuite(url, version)) {
      for (const { id, status, errorMessage } of checks) {
        if (status !== "FAILURE" && status !== "WARNING") continue;
        const reasoned = [scenario, id].filter((name) => NOT_FOR_JOBGATE[name] !== undefined);
        if (reasoned.length === 0) failed.push(`${version} ${scenario} ${id}: ${errorMessage}`);
        for (const name of reasoned) unused.delete(name);
      }
    }
  }
  expect({ failed, unused: [...unused] }).toEqual({ failed: [], unused: [] });
});
