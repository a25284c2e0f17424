import { context, diag, propagation, trace } from "@opentelemetry/api";
import { afterAll, describe, expect, it, vi } from "vitest";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { eventually } from "../helpers/eventually.ts";
import { type ReceivedSpan, startOtlpReceiver } from "../helpers/otlp-receiver.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN = "00f067aa0ba902b7";
const WEBHOOKS = `
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/traced"
job_id = 30
auth = "bearer"
secret = "webhook-secret-do-not-tell"
`;
const CONFIG = `
[store]
url = "sqlite:own.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
${WEBHOOKS}`;

const parts = startBeforeAll(startPaidParts);
const collector = startBeforeAll(startOtlpReceiver);
/** The SDK reads its environment once, when a gateway starts. */
async function withEnv<T>(env: Readonly<Record<string, string>>, start: () => Promise<T>): Promise<T> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return start().finally(() => vi.unstubAllEnvs());
}
const gateway = startBeforeAll(() =>
  withEnv(
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: "100",
      OTEL_SERVICE_NAME: "jobgate-under-test",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=testing",
    },
    () =>
      startPaidGateway({
        parts,
        setUp: "rpc_url",
        edit: (config) => `${config}${WEBHOOKS}`,
      }),
  ),
);
// jobgate registers them for the life of its process, but this process also runs other test files.
afterAll(() => {
  for (const api of [trace, context, propagation, diag]) api.disable();
});

/** Waits for a span of each name in one trace. @returns every span of the trace */
async function spansOf(traceId: string, names: readonly string[]): Promise<ReceivedSpan[]> {
  await eventually(() => {
    const found = collector.spans.filter((span) => span.traceId === traceId).map(({ name }) => name);
    expect(found).toEqual(expect.arrayContaining([...names]));
  });
  return collector.spans.filter((span) => span.traceId === traceId);
}

const PAID_ROUTE = "POST /x402/jobs/{service}/{job}";

describe("The trace of a paid request", () => {
  it("Continues the client's trace, holds every step, and ends at the runner", async () => {
    const payment = await gateway.sign();
    const traceparent = `00-${TRACE_ID}-${CLIENT_SPAN}-01`;
    const { status, call_id } = await gateway.send(payment, { body: "traced", headers: { traceparent } });
    expect(status).toBe(202);
    const [call] = await gateway.waitForJobs("traced");

    const steps = ["facilitator.verify", "facilitator.settle", "store.commit", "chain.rpc"];
    const spans = await spansOf(TRACE_ID, [PAID_ROUTE, "jobcall.deliver", ...steps]);
    const named = (name: string) => spans.filter((span) => span.name === name);
    const [server] = named(PAID_ROUTE);
    expect(server).toMatchObject({
      kind: 2,
      parentSpanId: CLIENT_SPAN,
      attributes: {
        "http.request.method": "POST",
        "http.route": "/x402/jobs/{service}/{job}",
        "http.response.status_code": 202,
      },
      resource: {
        "service.name": "jobgate-under-test",
        "deployment.environment.name": "testing",
      },
    });
    for (const step of steps.flatMap(named)) expect(step.parentSpanId).toBe(server?.spanId);
    expect(named("facilitator.verify")[0]?.attributes).toMatchObject({ "jobgate.outcome": "valid" });
    expect(named("facilitator.settle")[0]?.attributes).toMatchObject({ "jobgate.outcome": "success" });
    const commits = named("store.commit").map(({ attributes }) => attributes["jobgate.operation"]);
    expect(commits).toEqual(["begin", "settle"]);
    expect(named("chain.rpc").map(({ attributes }) => attributes["rpc.method"])).toContain("eth_blockNumber");

    const [delivery] = named("jobcall.deliver");
    expect(delivery).toMatchObject({
      kind: 4,
      parentSpanId: server?.spanId,
      links: [{ traceId: TRACE_ID, spanId: server?.spanId }],
      attributes: { "jobgate.call_id": call_id, "jobgate.attempt": 1 },
    });
    expect(call?.metadata.traceparent).toBe(`00-${TRACE_ID}-${server?.spanId}-01`);
  });

  it("Records the error code of a refusal", async () => {
    const traceId = "11f92f3577b34da6a3ce929d0e0e4736";
    const headers = { traceparent: `00-${traceId}-${CLIENT_SPAN}-01` };
    await fetch(gateway.urlOf(), { method: "POST", body: "unpaid", headers });
    const [span] = await spansOf(traceId, [PAID_ROUTE]);
    expect(span?.attributes).toMatchObject({
      "http.response.status_code": 402,
      "jobgate.error_code": "payment_required",
    });
  });
});

describe("The trace of a webhook", () => {
  it("Begins at a request without a valid traceparent", async () => {
    const response = await fetch(`${gateway.jobgate.webhooksUrl}/hooks/traced`, {
      method: "POST",
      body: "hook",
      headers: { authorization: "Bearer webhook-secret-do-not-tell", traceparent: "00-zzz-1-01" },
    });
    expect(response.status).toBe(202);
    const [call] = await gateway.waitForJobs("hook");
    const [, traceId = "", spanId] = call?.metadata.traceparent?.split("-") ?? [];
    const spans = await spansOf(traceId, ["POST /hooks/traced", "store.commit", "jobcall.deliver"]);
    const server = spans.find(({ name }) => name === "POST /hooks/traced");
    expect(server).toMatchObject({ spanId, parentSpanId: "" });
  });
});

describe("The operator listener", () => {
  it("starts no trace for polls of the page and of monitoring, and continues the trace of its client", async () => {
    const traceId = "55f92f3577b34da6a3ce929d0e0e4736";
    const { operatorUrl } = gateway.jobgate;
    const getInfo = (headers: Record<string, string> = {}) =>
      fetch(`${operatorUrl}/jobgate.v1.OperatorService/GetInfo`, {
        ...{ method: "POST", body: "{}" },
        headers: { "content-type": "application/json", ...headers },
      });
    for (const path of ["/", "/healthz", "/metrics", "/nothing"]) await fetch(`${operatorUrl}${path}`);
    expect((await getInfo()).status).toBe(200);
    await getInfo({ traceparent: `00-${traceId}-${CLIENT_SPAN}-01` });
    const route = "/jobgate.v1.OperatorService/GetInfo";
    await spansOf(traceId, [`POST ${route}`]);
    const ofOperator = collector.spans.filter(
      ({ attributes }) => attributes["jobgate.listener"] === "operator",
    );
    expect(ofOperator.map(({ traceId, name }) => ({ traceId, name }))).toEqual([
      { traceId, name: `POST ${route}` },
    ]);
  });
});

it("No span holds a body, a payment, a signature, a token or a URL", async () => {
  const payment = await gateway.sign();
  await gateway.send(payment, { body: "a body that nobody is to see" });
  await gateway.waitForJobs("a body that nobody is to see");
  await eventually(() => expect(collector.spans.some(({ name }) => name === "jobcall.deliver")).toBe(true));
  const secrets = [
    payment.signed.signature.slice(2),
    Object.values(payment.headers)[0] as string,
    "a body that nobody is to see",
    "webhook-secret-do-not-tell",
    "http://",
  ];
  for (const secret of secrets) expect(collector.raw).not.toContain(secret);
});

it("A trace continues in another gateway if the first one ends before the delivery, and a stop sends the remaining spans", async () => {
  gateway.runner.kill();
  const traceId = "22f92f3577b34da6a3ce929d0e0e4736";
  const headers = { traceparent: `00-${traceId}-${CLIENT_SPAN}-01` };
  const { status } = await gateway.send(await gateway.sign(), { body: "later", headers });
  expect(status).toBe(202);
  await spansOf(traceId, [PAID_ROUTE]);
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: "60000" };
  await withEnv(env, () => gateway.restart());
  await gateway.waitForJobs("later");
  gateway.jobgate.kill("SIGTERM");
  expect((await gateway.jobgate.exited).code).toBe(0);
  const spans = await spansOf(traceId, [PAID_ROUTE, "jobcall.deliver"]);
  const server = spans.find(({ name }) => name === PAID_ROUTE);
  const delivery = spans.find(({ name }) => name === "jobcall.deliver");
  expect(delivery?.links).toEqual([{ traceId, spanId: server?.spanId }]);
  expect(delivery?.resource["service.name"]).toBe("jobgate");
});

it("Metadata has no traceparent while traces are off", async () => {
  const jobgate = await startEmbeddedJobgate({ config: CONFIG });
  const runner = await startRunner({ address: jobgate.runnerAddress });
  try {
    const headers = {
      authorization: "Bearer webhook-secret-do-not-tell",
      traceparent: `00-${TRACE_ID}-${CLIENT_SPAN}-01`,
    };
    await fetch(`${jobgate.webhooksUrl}/hooks/traced`, { method: "POST", headers, body: "x" });
    const [call] = await runner.waitFor(1);
    expect(Object.keys(call?.metadata ?? {}).sort()).toEqual([
      "X-CHAIN-CALL-ID",
      "X-CHAIN-SERVICE-ID",
      "X-HTTP-CONTENT-TYPE",
      "X-WEBHOOK-ORIGIN",
      "X-WEBHOOK-PATH",
    ]);
  } finally {
    await runner.stop();
    await jobgate.stop();
  }
});
