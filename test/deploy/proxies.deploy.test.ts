import { readFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { create } from "@bufbuild/protobuf";
import { Agent, fetch as fetchWith } from "undici";
import { describe, expect, it } from "vitest";
import { ExtendRequestSchema, type JobCall } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { startPaidGateway } from "../e2e/paid-gateway.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { PROXY_KINDS, type ProxyKind, prepareTlsProxy } from "./proxies.ts";

const TOKEN = "the-token-of-the-operator";
/** Address that clients connect from, which no proxy has. */
const CLIENT_ADDRESS = "127.0.0.2";
const MAX_BODY_BYTES = 1_048_576;
const LARGE_HEADER_BYTES = 15_000;

const parts = startBeforeAll(startPaidParts);

/** Starts jobgate behind a proxy. Each JobCall whose body is `wait` runs until {@link finish}. */
async function startBehind(kind: ProxyKind) {
  const proxy = await prepareTlsProxy(kind);
  const url = `https://localhost:${proxy.port}`;
  let finish = (): void => {};
  const waiting: JobCall[] = [];
  const gateway = await startPaidGateway({
    ...{ parts, setUp: "rpc_url", asProcess: true },
    handle: (call) =>
      Buffer.from(call.body).toString() === "wait"
        ? new Promise((resolve) => {
            waiting.push(call);
            finish = () => resolve({ body: Buffer.from("done") });
          })
        : { body: Buffer.from("done") },
    edit: (config) =>
      `${config}
[webhooks]
bind_address = "127.0.0.1:0"
trusted_proxies = ["127.0.0.1"]
[[webhooks.endpoints]]
path = "/hooks/alerts"
job_id = 30
allow_cidrs = ["${CLIENT_ADDRESS}"]
`
        .replace(
          'public_url = "http://127.0.0.1:8402"',
          `public_url = "${url}"\ntrusted_proxies = ["127.0.0.1"]`,
        )
        .replace("[operator]", `[operator]\ntoken = "${TOKEN}"`),
  });
  await proxy.start(gateway.jobgate);
  const ca = await readFile(proxy.authority);
  const agentAt = (localAddress: string) => new Agent({ allowH2: true, localAddress, connect: { ca } });
  const agents = [agentAt(CLIENT_ADDRESS), agentAt("127.0.0.1")] as const;
  const fetchBy = (agent: Agent) =>
    ((...[input, init]: Parameters<typeof globalThis.fetch>) =>
      input instanceof Request
        ? input.arrayBuffer().then((body) =>
            fetchWith(input.url, {
              ...{ method: input.method, headers: [...input.headers], dispatcher: agent },
              ...(body.byteLength > 0 && { body }),
            }),
          )
        : fetchWith(input, { ...init, dispatcher: agent } as never)) as typeof globalThis.fetch;
  return {
    ...{ url, ca, gateway, waiting },
    fetch: fetchBy(agents[0]),
    fetchFromHere: fetchBy(agents[1]),
    finish: () => finish(),
    async stop() {
      await Promise.all(agents.map((agent) => agent.destroy()));
      await proxy.stop();
      await gateway.stop();
    },
  };
}

describe.each(PROXY_KINDS)("Behind %s, configured as in deploy/,", (kind) => {
  const site = startBeforeAll(() => startBehind(kind));
  const jobUrl = () => `${site.url}/x402/jobs/1/0`;
  const buy = (body: string, headers: Record<string, string> = {}) =>
    payingFetch({
      ...{ account: accounts.payer, network: `eip155:${parts.anvil.chainId}`, fetch: site.fetch },
      spendControls: false,
    })(jobUrl(), { method: "POST", body, headers });

  it("the official client buys a job, with large headers", async () => {
    const response = await buy("work", { "x-large": "x".repeat(LARGE_HEADER_BYTES) });
    expect(response.status).toBe(202);
    expect(response.headers.get("payment-response")).toMatch(/./);
    await site.gateway.waitForJobs("work");
  });

  it("HTTP/2 is spoken, and the public URL is in the offer", async () => {
    const session = connectHttp2(site.url, { ca: site.ca });
    await new Promise((resolve, reject) => {
      session.once("connect", resolve);
      session.once("error", reject);
    });
    expect(session.alpnProtocol).toBe("h2");
    session.close();
    const offer = await site.fetch(jobUrl(), { method: "POST", body: "work" });
    expect(offer.status).toBe(402);
    expect(await offer.text()).toContain(jobUrl());
  });

  it("a body of the limit is accepted, and jobgate itself refuses a larger one", async () => {
    const send = (bytes: number) =>
      site.fetch(`${site.url}/hooks/alerts`, { method: "POST", body: "x".repeat(bytes) });
    expect((await send(MAX_BODY_BYTES)).status).toBe(202);
    const refused = await send(MAX_BODY_BYTES + 1);
    expect(refused.status).toBe(413);
    expect(await refused.json()).toMatchObject({ code: "body_too_large" });
  });

  it("a webhook has the sender's address, which a sender cannot forge", async () => {
    const send = (forged?: string) =>
      site.fetch(`${site.url}/hooks/alerts`, {
        ...{ method: "POST", body: "an alert" },
        headers: forged === undefined ? {} : { "x-forwarded-for": forged },
      });
    expect((await send()).status).toBe(202);
    // The rightmost address is the one that the proxy added.
    expect((await send("203.0.113.9")).status).toBe(202);
  });

  it("a buyer sees progress before the job ends", async () => {
    const { call_id, access_token } = (await (await buy("wait")).json()) as Record<string, unknown>;
    await expect.poll(() => site.waiting).toHaveLength(1);
    const events = await site.fetch(`${site.url}/x402/calls/${call_id}/events`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    const [call] = site.waiting as [JobCall];
    const progress = { percent: 40, text: "almost half" };
    await site.gateway.runner.extend(
      create(ExtendRequestSchema, {
        leases: [{ callId: call.callId, leaseToken: call.leaseToken, progress }],
      }),
    );
    const reader = (events.body as ReadableStream<Uint8Array>)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    const readUntil = async (wanted: string) => {
      for (let text = ""; !text.includes(wanted); ) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`the stream ended without ${wanted}: ${text}`);
        text += value;
      }
    };
    await readUntil("almost half");
    site.finish();
    await readUntil("event: succeeded");
    await reader.cancel();
  });

  it("the operator's page and API work under a prefix, for this network alone", async () => {
    expect((await site.fetch(`${site.url}/ops/`)).status).toBe(403);
    const page = await site.fetchFromHere(`${site.url}/ops/`);
    expect(page.status).toBe(200);
    const [, script] = /<script[^>]*src="([^"]+)"/.exec(await page.text()) ?? [];
    const loaded = await site.fetchFromHere(new URL(script ?? expect.fail(), `${site.url}/ops/`));
    expect(loaded.headers.get("content-type")).toMatch(/javascript/);
    const totals = await site.fetchFromHere(`${site.url}/ops/jobgate.v1.OperatorService/GetTotals`, {
      ...{ method: "POST", body: "{}" },
      headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
    });
    expect(totals.status).toBe(200);
  });
});
