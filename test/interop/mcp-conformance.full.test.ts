import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
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

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } },
  },
  properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
  additionalProperties: false,
};

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
};
/** Names of jobs have no underscores. */
const jobNameOf = (tool: string) => tool.replaceAll("_", "-");

/** Scenarios of what jobgate does not have, with the reason. */
const NOT_FOR_JOBGATE: Record<string, string> = {
  "logging-set-level": "sends no logs to clients",
  "tools-call-with-logging": "sends no logs to clients",
  "completion-complete": "has no prompts or resources, whose arguments could be completed",
  "tools-call-mixed-content": "gives the one result of a job",
  "tools-call-sampling": "asks nothing of clients",
  "tools-call-elicitation": "asks nothing of clients",
  "elicitation-sep1034-defaults": "asks nothing of clients",
  "elicitation-sep1330-enums": "asks nothing of clients",
  "server-sse-polling":
    "never ends a stream early: a lost answer is asked for again with its payment, or as a task",
  "resources-list": "has no resources",
  "resources-read-text": "has no resources",
  "resources-read-binary": "has no resources",
  "resources-templates-read": "has no resources",
  "resources-subscribe": "has no resources",
  "resources-unsubscribe": "has no resources",
  "prompts-list": "has no prompts",
  "prompts-get-simple": "has no prompts",
  "prompts-get-with-args": "has no prompts",
  "prompts-get-embedded-resource": "has no prompts",
  "prompts-get-with-image": "has no prompts",
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
      call.params.name = jobNameOf(call.params.name);
      call.params._meta = { ...call.params._meta, "x402/payment": payload };
      if (call.params._meta.progressToken !== undefined) return streamedAnswer(path, headers, call);
      return { kind: "rewrite", rewrite: () => Buffer.from(JSON.stringify(call)) };
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

/** Reads the answer to a call as it comes, because the proxy passes it on at its end. */
async function streamedAnswer(path: string, headers: ProxiedRequest["headers"], call: object) {
  const { accept = "", "mcp-session-id": session } = headers;
  const response = await fetch(new URL(path, gateway.jobgate.x402Url), {
    method: "POST",
    headers: { accept, "mcp-session-id": String(session) },
    body: JSON.stringify(call),
  });
  const stream = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream());
  for await (const text of stream) streamed += text;
  const type = { "content-type": response.headers.get("content-type") ?? "" };
  return { kind: "answer", status: response.status, headers: type, body: streamed } as const;
}

/** Runs the suite. @returns the names of all scenarios, and of those that pass */
async function runSuite(url: string): Promise<{ all: string[]; passed: string[] }> {
  // Node 20 has no globSync, which only the suite's other commands use.
  const program = `${SUITE}for-node-20.js`;
  await writeFile(program, (await readFile(`${SUITE}index.js`, "utf8")).replace(/globSync as [a-z]+,/, ""));
  const args = [program, "server", "--url", url, "--suite", "all"];
  const printed = await new Promise<string>((resolve) => {
    // It ends with 1 when a scenario fails.
    execFile(process.execPath, args, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
  const lines = [...printed.matchAll(/^[✓✗] ([\w-]+): ([0-9]+) passed, ([0-9]+) failed$/gm)];
  if (lines.length === 0) throw new Error(printed);
  const isPassed = ([, , passed, failed]: RegExpExecArray) => Number(passed) > 0 && failed === "0";
  const nameOf = ([, name = ""]: RegExpExecArray) => name;
  return { all: lines.map(nameOf), passed: lines.filter(isPassed).map(nameOf) };
}

it("The MCP conformance suite passes in all that jobgate has", async () => {
  await startShop();
  const { all, passed } = await runSuite(await startPayer());
  expect(passed).toEqual(all.filter((scenario) => NOT_FOR_JOBGATE[scenario] === undefined));
  expect(all).toEqual(expect.arrayContaining(Object.keys(NOT_FOR_JOBGATE)));
});
