import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { DeployedSite, SECRETS } from "./deployed-site.ts";
import { startDocker } from "./docker.ts";
import { createPod, readKubernetes } from "./pod.ts";

const SERVICE = "jobgate";
/** Address that the files of Kubernetes name. */
const PUBLIC_FACILITATOR = "https://x402.org/facilitator";
const parts = startBeforeAll(() => startPaidParts());
const engine = startBeforeAll(startDocker);

let address: Promise<string> | undefined;
/** URL of the facilitator for containers. */
const facilitatorUrl = async () => {
  address ??= engine.lead(parts.facilitator.port, "tls");
  return `https://${await address}`;
};

describe("compose.yaml", () => {
  const site = new DeployedSite("127.0.0.1");
  /** Runs `docker-compose` with the variables of `.env`. */
  const compose = async (...args: string[]) => engine.compose(await variables(), ...args);
  const container = async (name: string) => (await compose("ps", "--quiet", name)).trim();
  const inspect = async (name: string, format: string) =>
    (await engine.docker("inspect", "--format", format, await container(name))).trim();

  const variables = async () => ({ ...SECRETS, FACILITATOR_URL: await facilitatorUrl() });

  it("`docker compose up --build` makes the image, and starts the runner once jobgate is healthy", async () => {
    await compose("up", "--detach", "--build");
    expect(await inspect(SERVICE, "{{.State.Health.Status}}")).toBe("healthy");
    expect(await inspect("runner", "{{.State.Running}}")).toBe("true");
    expect(await site.probe("/readyz")).toBe(200);
  });

  it("jobgate runs as user 1000 without capabilities, on a file system that it cannot write", async () => {
    const inside = async (script: string) =>
      (await compose("exec", "-T", SERVICE, "sh", "-c", script)).trim();
    expect(await inside("id -u")).toBe("1000");
    expect(await inside("grep -hE '^(CapEff|CapBnd|NoNewPrivs)' /proc/1/status | cut -f2")).toBe(
      "0000000000000000\n0000000000000000\n1",
    );
    expect(await inside("touch /app/file 2>&1 || true")).toContain("Read-only file system");
    expect(await inside("stat -c '%a %u' /run/jobgate/runner.sock")).toBe("600 1000");
  });

  it("A webhook reaches the runner, and a buyer gets the result of a paid job", async () => {
    expect(await site.done(await site.sendAlert("an alert"))).toBe(1);
    expect(await site.buy("a paid body")).toBe("a paid body");
  });

  it("A JobCall outlives the kill of jobgate, and `down` and `up`", async () => {
    await compose("stop", "runner");
    const callId = await site.sendAlert("before the kill");
    await compose("kill", SERVICE);
    await compose("up", "--detach");
    expect(await site.done(callId)).toBe(1);
    await compose("down");
    expect(await site.probe("/healthz")).toBe(0);
    await compose("up", "--detach");
    expect(await site.done(callId)).toBe(1);
  });

  it("`stop` waits for the job that a runner has, and ends in order", async () => {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-compose-"));
    const slow = join(folder, "slow.yaml");
    const command = ["run-each", "--runner", "unix:/run/jobgate/runner.sock", "--", "sleep", "3"];
    await writeFile(slow, JSON.stringify({ services: { runner: { command } } }));
    const files = ["--file", "compose.yaml", "--file", slow];
    await compose(...files, "up", "--detach");
    const callId = await site.sendAlert("a slow job");
    await expect.poll(async () => (await site.call(callId)).state).toBe("CALL_STATE_LEASED");
    await compose(...files, "stop", SERVICE);
    expect(await inspect(SERVICE, "{{.State.ExitCode}}")).toBe("0");
    await compose(...files, "start", SERVICE);
    await expect.poll(() => site.probe("/readyz")).toBe(200);
    expect(await site.call(callId)).toMatchObject({ state: "CALL_STATE_DONE", attempts: 1 });
  });

  it("A mistake in a variable ends jobgate with a line that names the key", async () => {
    await compose("stop");
    const started = engine.compose({ ...(await variables()), PAY_TO: "nobody" }, "run", "--rm", SERVICE);
    await expect(started).rejects.toMatchObject({ stderr: expect.stringContaining("pay_to") });
  });
});

describe("A pod of Kubernetes, in containers,", () => {
  /** Creates a pod of a file, whose facilitator is one that its operator chose. */
  async function podOf(
    file: string,
    options: { claims?: string; storeUrl?: string; edit?: [string, string] },
  ) {
    const { claims = "", storeUrl, edit: [from, to] = ["", ""] } = options;
    const yaml = (await readKubernetes(file)).replace(PUBLIC_FACILITATOR, await facilitatorUrl());
    const secret = { ...SECRETS, ...(storeUrl !== undefined && { STORE_URL: storeUrl }) };
    const pod = await createPod(engine, { yaml: yaml.replace(from, to), secret, claims });
    return Object.assign(pod, { site: new DeployedSite(pod.address) });
  }

  it("The pod of sidecar.yaml sells, delivers, ends in order, and continues on its volume", async () => {
    const claims = await mkdtemp("/var/tmp/jobgate-claims-");
    const first = await podOf("sidecar.yaml", { claims });
    await first.start();
    expect(await first.site.done(await first.site.sendAlert("an alert"))).toBe(1);
    expect(await first.site.buy("a paid body")).toBe("a paid body");
    expect(await first.inside("id -u; touch /app/file 2>&1 || true")).toMatch(
      /^1000\n.*Read-only file system/,
    );
    expect(await first.end("runner")).toBe(0);
    const callId = await first.site.sendAlert("before the next pod");
    expect(await first.stop()).toBe(0);
    const next = await podOf("sidecar.yaml", { claims });
    await next.start();
    expect(await next.site.done(callId)).toBe(1);
    expect(await next.stop()).toBe(0);
    await rm(claims, { recursive: true });
  });

  it("Two pods of replicas.yaml share Postgres: the runner of one does what the other accepted", async () => {
    const postgres = await startPostgres();
    onTestFinished(() => postgres.stop());
    const { pathname } = new URL(await postgres.createDatabase());
    const storeUrl = `postgres://postgres@${await engine.lead(postgres.port, "tcp")}${pathname}?sslmode=disable`;
    const pods = [await podOf("replicas.yaml", { storeUrl }), await podOf("replicas.yaml", { storeUrl })];
    const [one, other] = pods as [(typeof pods)[0], (typeof pods)[0]];
    await Promise.all(pods.map((pod) => pod.start()));
    expect(await one.end("runner")).toBe(0);
    const callId = await one.site.sendAlert("for the other's runner");
    expect(await other.site.done(callId)).toBe(1);
    expect(await one.stop()).toBe(0);
    expect(await other.site.buy("a paid body")).toBe("a paid body");
    expect(await other.stop()).toBe(0);
  });

  it("A mistake in the ConfigMap ends jobgate with a line that names the key", async () => {
    const claims = await mkdtemp("/var/tmp/jobgate-claims-");
    const pod = await podOf("sidecar.yaml", { claims, edit: ['price = "$0.01"', 'price = "cheap"'] });
    await expect(pod.start()).rejects.toThrow(/jobs\[0\]\.price: is \\?"cheap/);
    expect(await pod.stop()).not.toBe(0);
    await rm(claims, { recursive: true });
  });
});
