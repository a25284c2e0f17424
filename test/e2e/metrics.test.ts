import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type JobCall, NackRequestSchema } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { version } from "../../src/node/version.ts";
import { eventually } from "../helpers/eventually.ts";
import { findExpositionMistakes, type MetricFamily, parseExposition } from "../helpers/exposition.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const WEBHOOKS = `
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/open"
job_id = 30
[[webhooks.endpoints]]
path = "/hooks/closed"
job_id = 31
auth = "bearer"
secret = "webhook-secret"
`;
const file = (name: string) => readFile(new URL(`../../${name}`, import.meta.url), "utf8");

/** Bodies whose JobCalls fail for good. */
const failing = new Set<string>();

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => config + WEBHOOKS,
    handle: async (call) => {
      if (failing.has(Buffer.from(call.body).toString())) await deadLetter(call);
      return undefined;
    },
  }),
);

async function deadLetter({ callId, leaseToken }: JobCall): Promise<void> {
  const outcome = { case: "fail", value: { reason: "no good" } } as const;
  await gateway.runner.nack(create(NackRequestSchema, { nacks: [{ callId, leaseToken, outcome }] }));
}

async function scrape(): Promise<{
  text: string;
  families: MetricFamily[];
  value: ReturnType<typeof reader>;
}> {
  const response = await fetch(`${gateway.jobgate.operatorUrl}/metrics`);
  expect(response.status).toBe(200);
  const text = await response.text();
  const families = parseExposition(text);
  return { text, families, value: reader(families) };
}

/** Returns a function that sums up the samples with these labels; undefined if there is none. */
function reader(families: readonly MetricFamily[]) {
  const samples = families.flatMap((family) => family.samples);
  return (name: string, labels: Readonly<Record<string, string>> = {}): number | undefined => {
    const found = samples.filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
    return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
  };
}

const NETWORK = () => `eip155:${parts.anvil.chainId}`;

describe("The metrics count", () => {
  it("Payments by state and token, and the duration of each step", async () => {
    expect((await gateway.send(await gateway.sign(), { body: "paid" })).status).toBe(202);
    await gateway.waitForJobs("paid");
    await eventually(async () => {
      const { value } = await scrape();
      expect(value("jobgate_jobcalls_acked_total")).toBeGreaterThan(0);
      // Totals are read once a second.
      expect(value("jobgate_payments", { state: "settled" })).toBe(1);
      // Counted by a timer. On an idle machine no tick is late: the sum may be 0.
      expect(value("jobgate_event_loop_delay_seconds_count")).toBeGreaterThan(1);
    });
    const { value } = await scrape();
    const token = { network: NETWORK(), symbol: "USDC" };
    expect(value("jobgate_payments_total", { state: "settled", ...token })).toBe(1);
    expect(value("jobgate_payment_amount_total", { ...token, asset: parts.usdc.address.toLowerCase() })).toBe(
      Number(AMOUNT),
    );
    expect(value("jobgate_journal_balanced")).toBe(1);

    const took = (name: string, labels: Record<string, string> = {}) => {
      expect(value(`${name}_sum`, labels)).toBeGreaterThan(0);
      return value(`${name}_count`, labels);
    };
    const facilitator = "jobgate_facilitator_request_duration_seconds";
    expect(took(facilitator, { operation: "verify", outcome: "valid" })).toBe(1);
    expect(took(facilitator, { operation: "settle", outcome: "success" })).toBe(1);
    const evidence = { purpose: "evidence", outcome: "ok" };
    expect(took("jobgate_chain_rpc_duration_seconds", evidence)).toBeGreaterThan(1);
    expect(took("jobgate_store_commit_duration_seconds", { outcome: "committed" })).toBeGreaterThan(1);
    expect(took("jobgate_store_commit_operations")).toBeGreaterThan(1);
    expect(value("jobgate_first_delivery_delay_seconds_count")).toBe(1);
    expect(value("jobgate_deliveries_total", { attempt: "first" })).toBe(1);
    expect(value("jobgate_build_info", { version })).toBe(1);
  });

  it("Requests by route pattern and error code, never by raw path", async () => {
    const paid = { listener: "x402", route: "/x402/jobs/{service}/{job}", method: "POST" };
    const before = (await scrape()).value;
    await fetch(gateway.urlOf(1), { method: "POST", body: "x" });
    await fetch(`${gateway.jobgate.x402Url}/x402/jobs/77/12345`, { method: "POST", body: "x" });
    await fetch(`${gateway.jobgate.x402Url}/x402/jobs/1/0/price`);
    await fetch(`${gateway.jobgate.x402Url}/x402/calls/4242/events`);
    for (let i = 0; i < 5; i++) await fetch(`${gateway.jobgate.webhooksUrl}/no/such/path/${i}`);
    await fetch(`${gateway.jobgate.webhooksUrl}/hooks/closed`, { method: "POST", body: "x" });
    await fetch(`${gateway.jobgate.webhooksUrl}/hooks/open`, { method: "PROPFIND" });

    // A request is counted when its answer is written, which may be just after the client has it.
    const { families } = await eventually(async () => {
      const { families, value } = await scrape();
      const requests = (labels: Record<string, string>) =>
        (value("jobgate_http_requests_total", labels) ?? 0) -
        (before("jobgate_http_requests_total", labels) ?? 0);
      expect(requests({ ...paid, code: "402", error: "payment_required" })).toBe(1);
      expect(requests({ ...paid, code: "404", error: "job_not_found" })).toBe(1);
      expect(requests({ route: "/x402/jobs/{service}/{job}/price", code: "200", error: "" })).toBe(1);
      expect(requests({ route: "/x402/calls/{call}/events", code: "401", error: "unauthorized" })).toBe(1);
      const unmatched = { listener: "webhooks", route: "unmatched" };
      expect(requests({ ...unmatched, code: "404", error: "not_found" })).toBe(5);
      expect(requests({ listener: "webhooks", route: "/hooks/closed", error: "unauthorized" })).toBe(1);
      expect(requests({ route: "/hooks/open", method: "_OTHER", error: "method_not_allowed" })).toBe(1);
      expect(requests({ listener: "operator", route: "/metrics", code: "200" })).toBeGreaterThan(0);
      return { families };
    });
    const labels = families.flatMap(({ samples }) =>
      samples.flatMap((sample) => Object.values(sample.labels)),
    );
    const pathParts = new Set(labels.flatMap((value) => value.split("/")));
    for (const sent of ["12345", "4242", "such"]) expect(pathParts).not.toContain(sent);
  });

  it("Each endpoint's requests, and what happened in each span of time, as the operator's API shows them", async () => {
    const ask = async (method: string) => {
      const url = `${gateway.jobgate.operatorUrl}/jobgate.v1.OperatorService/${method}`;
      const headers = { "content-type": "application/json" };
      return (await fetch(url, { method: "POST", headers, body: "{}" })).json();
    };
    await fetch(`${gateway.jobgate.webhooksUrl}/hooks/closed`, { method: "POST", body: "x" });
    await fetch(`${gateway.jobgate.webhooksUrl}/hooks/open`, { method: "POST", body: "x" });
    await eventually(async () => {
      const { value } = await scrape();
      const { endpoints } = (await ask("ListEndpoints")) as { endpoints: Record<string, unknown>[] };
      const endpoint = (expected: Record<string, unknown>) =>
        expect(endpoints).toContainEqual(expect.objectContaining(expected));
      const job = { service_id: "1", job_id: "0" };
      const offers = value("jobgate_job_refusals_total", { ...job, error: "payment_required" });
      expect(offers).toBeGreaterThan(0);
      endpoint({ ...job, origin: "x402", amounts: ["3.264 USDC"], offers: String(offers), accepted: "1" });
      endpoint({ origin: "webhook", path: "/hooks/open", job_id: "30", auth: "none", accepted: "1" });
      endpoint({ path: "/hooks/closed", auth: "bearer", refusals: [expect.anything()], accepted: "0" });
      const { activity } = (await ask("GetActivity")) as { activity: Record<string, string>[] };
      const sum = (kind: string) => activity.reduce((total, bucket) => total + Number(bucket[kind]), 0);
      expect(sum("accepted")).toBe(value("jobgate_jobcalls_accepted_total"));
      expect(sum("acked")).toBe(value("jobgate_jobcalls_acked_total"));
      expect(sum("refused")).toBeGreaterThan(0);
    });
  });

  it("Malformed requests, and clients that hang up before their answer", async () => {
    const [host, port] = (gateway.jobgate.listeners.get("webhooks") ?? "").split(":");
    const broken = connect(Number(port), host);
    broken.write("nonsense\r\n\r\n");
    const left = connect(Number(port), host);
    left.write(
      "POST /hooks/open HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n123",
    );
    // "100 Continue" shows that jobgate has taken the request.
    await once(left, "data");
    left.destroy();
    await eventually(async () => {
      const { value } = await scrape();
      const code = (labels: Record<string, string>) => value("jobgate_http_requests_total", labels);
      expect(code({ route: "unmatched", code: "400", error: "bad_request" })).toBe(1);
      expect(code({ route: "/hooks/open", code: "499" })).toBe(1);
    });
    broken.destroy();
  });

  it("Dead letters, runners and waiting JobCalls", async () => {
    failing.add("bad");
    await fetch(`${gateway.jobgate.webhooksUrl}/hooks/open`, { method: "POST", body: "bad" });
    await eventually(async () => {
      const { value } = await scrape();
      expect(value("jobgate_jobcalls_dead_lettered_total")).toBe(1);
      expect(value("jobgate_queue_calls", { state: "dead" })).toBe(1);
      expect(value("jobgate_runner_streams")).toBe(1);
      expect(value("jobgate_queue_oldest_age_seconds")).toBe(0);
    });
    gateway.runner.kill();
    await fetch(`${gateway.jobgate.webhooksUrl}/hooks/open`, { method: "POST", body: "waits" });
    await eventually(async () => {
      const { value } = await scrape();
      expect(value("jobgate_runner_streams")).toBe(0);
      expect(value("jobgate_queue_calls", { state: "ready" })).toBe(1);
      expect(value("jobgate_queue_oldest_age_seconds")).toBeGreaterThan(0);
    });
    await gateway.replaceRunner();
    await gateway.waitForJobs("waits");
  });
});

/** Labels that Prometheus adds, and the bounds of histograms. */
const OF_TARGETS = new Set(["job", "instance", "le"]);

/** A panel of Grafana, as far as it is tested. */
interface Panel {
  readonly title: string;
  readonly type: string;
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

/** Reads the types and labels of docs/metrics.md, which another test compares with what jobgate exports. */
async function documentedMetrics() {
  const rows = (await file("docs/metrics.md")).matchAll(/^\| `(\w+)` \| (\w+) \| ([^|]*) \| \S.* \|$/gm);
  return new Map(
    [...rows].map(([, name = "", type = "", labels = ""]) => {
      const named = [...labels.matchAll(/`(\w+)`/g)].map(([, label = ""]) => label);
      return [name, { type, labels: named }] as const;
    }),
  );
}

describe("The metrics page", () => {
  it("Follows the format and the naming conventions of Prometheus", async () => {
    const { text, families } = await scrape();
    expect(findExpositionMistakes(families)).toEqual([]);
    // In addition to the check above, where promtool is installed.
    const promtool = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" });
    if (promtool.error === undefined) expect(promtool.stdout + promtool.stderr).toBe("");
  });

  it("Has exactly the names, types and labels of docs/metrics.md", async () => {
    const documented = await documentedMetrics();
    const { families } = await scrape();
    expect(Object.fromEntries(families.map(({ name, type }) => [name, type]))).toEqual(
      Object.fromEntries([...documented].map(([name, { type }]) => [name, type])),
    );
    for (const { name, samples } of families) {
      for (const { labels } of samples) {
        const { le: _, ...named } = labels;
        expect(Object.keys(named).sort(), name).toEqual([...(documented.get(name)?.labels ?? [])].sort());
      }
    }
  });

  it("Has no state that its row in docs/metrics.md does not name", async () => {
    const lines = (await file("docs/metrics.md")).split("\n");
    const { families } = await scrape();
    const unnamed = families.flatMap(({ name, samples }) => {
      const row = lines.find((line) => line.startsWith(`| \`${name}\` |`)) ?? "";
      const states = new Set(samples.flatMap(({ labels }) => labels.state ?? []));
      return [...states].filter((state) => !row.includes(`\`${state}\``)).map((state) => `${name}: ${state}`);
    });
    expect(unnamed).toEqual([]);
  });

  it.each(["deploy/prometheus/alerts.yml", "deploy/grafana/jobgate.json"])(
    "has every metric that %s names",
    async (path) => {
      const known = new Set(
        (await scrape()).families.flatMap(({ name, type }) =>
          type === "histogram" ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
        ),
      );
      const named = (await file(path)).match(/\b(?:jobgate|process|nodejs)_\w+/g) ?? [];
      expect(named.length).toBeGreaterThan(15);
      expect([...new Set(named)].filter((name) => !known.has(name))).toEqual([]);
    },
  );

  it("Has every metric and label that each panel of deploy/grafana/jobgate.json queries, and no two panels overlap", async () => {
    const documented = await documentedMetrics();
    const { panels } = JSON.parse(await file("deploy/grafana/jobgate.json")) as { panels: readonly Panel[] };
    const mistakes = panels.flatMap(({ title, type, targets = [] }) => {
      if (type !== "row" && targets.length === 0) return [`${title} queries nothing`];
      return targets.flatMap(({ expr, legendFormat }) => {
        const metrics = [...expr.matchAll(/\b((?:jobgate|process|nodejs)_\w+?)(?:_bucket)?\{([^}]*)\}/g)];
        const known = new Set(metrics.flatMap(([, name = ""]) => documented.get(name)?.labels ?? []));
        const wanted = [
          ...metrics.flatMap(([, , selectors = ""]) => [...selectors.matchAll(/(\w+)=/g)]),
          ...[...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, by = ""]) => [...by.matchAll(/(\w+)/g)]),
          ...legendFormat.matchAll(/\{\{(\w+)\}\}/g),
        ].flatMap(([, label = ""]) =>
          known.has(label) || OF_TARGETS.has(label) ? [] : `${title}: ${label}`,
        );
        const unknown = metrics.flatMap(([, name = ""]) => (documented.has(name) ? [] : `${title}: ${name}`));
        return [...(metrics.length === 0 ? [`${title}: no metric in ${expr}`] : []), ...unknown, ...wanted];
      });
    });
    expect(mistakes).toEqual([]);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    );
    expect(cells.length - new Set(cells).size).toBe(0);
  });

  it("Has a panel of deploy/grafana/jobgate.json for all that deploy/prometheus/alerts.yml says of money", async () => {
    const [alerts, dashboard] = await Promise.all([
      file("deploy/prometheus/alerts.yml"),
      file("deploy/grafana/jobgate.json"),
    ]);
    const money = /\bjobgate_(?:refund|payments|charges|callbacks|settler|token|journal)\w+/g;
    const alerted = [...new Set(alerts.match(money))];
    expect(alerted.length).toBeGreaterThan(8);
    expect(alerted.filter((name) => !dashboard.includes(`${name}{`))).toEqual([]);
    expect(dashboard).toContain("jobgate_settler_balance{");
  });

  it("deploy/prometheus/alerts.yml holds well-formed rules", async () => {
    const path = new URL("../../deploy/prometheus/alerts.yml", import.meta.url).pathname;
    const rules = await file("deploy/prometheus/alerts.yml");
    const alerts = [
      ...rules.matchAll(
        /^ {6}- alert: (\w+)\n {8}expr: (?:>-\n(?: {10}.*\n)+|\S.*\n) {8}for: \d+m\n {8}labels: /gm,
      ),
    ];
    expect(alerts.length).toBe([...rules.matchAll(/- alert:/g)].length);
    expect(new Set(alerts.map(([, name]) => name)).size).toBe(alerts.length);
    const promtool = spawnSync("promtool", ["check", "rules", path], { encoding: "utf8" });
    if (promtool.error === undefined) expect(promtool.stdout).toContain("SUCCESS");
  });
});
