import { createHmac } from "node:crypto";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { WebhookEndpoint } from "../../src/config/config.ts";
import { RunnerServer } from "../../src/delivery/runner-server.ts";
import { openStore } from "../../src/open-store.ts";
import type { Store } from "../../src/store/store.ts";
import { signWebhook } from "../../src/webhooks/sign.ts";
import { WebhookGateway } from "../../src/webhooks/webhook-gateway.ts";
import { mistakesOf } from "../config/config-folder.ts";
import { rawRequest, sendRaw } from "../helpers/raw-request.ts";
import { type Runner, startRunner } from "../helpers/runner.ts";

const logger = pino({ level: "silent" });
const LOCAL = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
/** GitHub's own example. */
const GITHUB_SECRET = "It's a Secret to Everybody";
const GITHUB_BODY = "Hello, World!";
const GITHUB_SIGNATURE = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const BIG_JOB_ID = 2n ** 64n - 1n;

const ENDPOINTS = {
  open: { path: "/hooks/open", jobId: 1n, auth: { mode: "none" } },
  bearer: {
    path: "/hooks/bearer",
    jobId: 2n,
    auth: { mode: "bearer", secrets: [{ name: "secret", secret: "t0ken-With-Case" }] },
    name: "Bearer",
  },
  hmac: {
    path: "/hooks/hmac",
    jobId: BIG_JOB_ID,
    auth: { mode: "hmac-sha256", secrets: [{ name: "secret", secret: GITHUB_SECRET }] },
    name: "Alerts",
  },
  apiKey: {
    path: "/hooks/key",
    jobId: 3n,
    auth: { mode: "api-key", secrets: [{ name: "secret", secret: "k3y" }], header: "x-api-key" },
  },
} as const satisfies Record<string, WebhookEndpoint>;

const MAX_BODY = 4_096;
const UNAUTHORIZED = '{"error":"unauthorized","code":"unauthorized"}';

let folder: string;
let store: Store;
let gateway: WebhookGateway;
let runnerServer: RunnerServer;
let runner: Runner;
let url: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-webhooks-"));
  store = await openStore({ url: `sqlite:${join(folder, "jobgate.db")}`, maxPending: 1_000 }, logger);
  runnerServer = new RunnerServer({
    config: {
      ...{ bindAddress: LOCAL, leaseMs: 60_000, maxAttempts: 3 },
      ...{ retryBaseMs: 10, retryMaxMs: 100, drainMs: 100 },
    },
    workQueue: store,
    status: () => store.status(),
    logger,
  });
  await runnerServer.start();
  gateway = new WebhookGateway({
    config: { bindAddress: LOCAL, maxBodyBytes: MAX_BODY, endpoints: Object.values(ENDPOINTS) },
    serviceId: 42n,
    intake: store,
    logger,
  });
  await gateway.start();
  url = `http://${gateway.address}`;
  runner = await startRunner({ address: runnerServer.address });
});

afterAll(async () => {
  await gateway?.stop();
  await runner?.stop();
  await runnerServer?.stop();
  await store?.close();
  await rm(folder, { recursive: true, force: true });
});

/** A gateway with a store of its own, and no runner: nothing else writes there. */
async function startAlone(endpoint: WebhookEndpoint, maxPending: number) {
  const own = await mkdtemp(join(tmpdir(), "jobgate-webhooks-"));
  const intake = await openStore({ url: `sqlite:${join(own, "jobgate.db")}`, maxPending }, logger);
  const config = { bindAddress: LOCAL, maxBodyBytes: MAX_BODY, endpoints: [endpoint] };
  const alone = new WebhookGateway({ config, serviceId: 1n, intake, logger });
  onTestFinished(async () => {
    await alone.stop();
    await intake.close();
    await rm(own, { recursive: true, force: true });
  });
  await alone.start();
  return {
    intake,
    at: `http://${alone.address}`,
    /** Every commit is first in the write-ahead log; checkpoints only move commits into the database. */
    async journalFile() {
      const { size, mtimeNs } = await stat(join(own, "jobgate.db-wal"), { bigint: true });
      return { size, mtimeNs };
    },
  };
}

type Headers = Readonly<Record<string, string>>;

async function post(path: string, headers: Headers, body: string | Uint8Array<ArrayBuffer> = GITHUB_BODY) {
  const response = await fetch(`${url}${path}`, { method: "POST", headers, body });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

/** Sends header lines as they are, so that one can come twice. */
async function postLines(path: string, lines: readonly string[], body = GITHUB_BODY) {
  const head = ["host: a", "connection: close", `content-length: ${body.length}`, ...lines].join("\r\n");
  const [answer] = await sendRaw(url, `POST ${path} HTTP/1.1\r\n${head}\r\n\r\n${body}`);
  return { status: answer?.status, text: answer?.body };
}

/** The JobCall that an accepted request became. */
async function jobCallOf(answer: { status?: number | undefined; text?: string | undefined }) {
  expect(answer).toMatchObject({ status: 202 });
  const callId = BigInt(/"call_id":(\d+)/.exec(answer.text ?? "")?.[1] ?? 0);
  const find = () => runner.calls.find((call) => call.callId === callId);
  for (let seen = runner.calls.length; find() === undefined; seen = runner.calls.length)
    await runner.waitFor(seen + 1, 5_000);
  return find();
}

const sign = (body: string | Uint8Array) => createHmac("sha256", GITHUB_SECRET).update(body).digest("hex");
const signed = (body: string | Uint8Array): Headers => ({ "x-signature-256": `sha256=${sign(body)}` });

describe("an accepted webhook", () => {
  it("is answered 202 with its job and call, and delivered with exactly its metadata", async () => {
    const answer = await post(ENDPOINTS.hmac.path, signed(GITHUB_BODY));
    const call = await jobCallOf(answer);
    expect(answer.text).toBe(`{"status":"accepted","job_id":18446744073709551615,"call_id":${call?.callId}}`);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(call).toMatchObject({ jobId: BIG_JOB_ID, serviceId: 42n, attempt: 1 });
    expect(Buffer.from(call?.body ?? []).toString()).toBe(GITHUB_BODY);
    expect(call?.metadata).toEqual({
      "X-WEBHOOK-ORIGIN": "webhook",
      "X-WEBHOOK-PATH": "/hooks/hmac",
      "X-WEBHOOK-NAME": "Alerts",
      "X-CHAIN-SERVICE-ID": "42",
      "X-CHAIN-CALL-ID": String(call?.callId),
    });
  });

  it("carries no name when none is configured", async () => {
    const call = await jobCallOf(await post(ENDPOINTS.open.path, {}));
    expect(call?.metadata).toEqual({
      "X-WEBHOOK-ORIGIN": "webhook",
      "X-WEBHOOK-PATH": "/hooks/open",
      "X-CHAIN-SERVICE-ID": "42",
      "X-CHAIN-CALL-ID": String(call?.callId),
    });
  });

  it("is what sign-webhook's headers get, in every mode", async () => {
    for (const endpoint of Object.values(ENDPOINTS)) {
      const headers = signWebhook(endpoint, Buffer.from(GITHUB_BODY));
      expect((await jobCallOf(await post(endpoint.path, headers)))?.jobId).toBe(endpoint.jobId);
    }
  });

  it("gzip, empty, non-UTF-8 body → signed and delivered byte for byte", async () => {
    const bodies = [
      gzipSync('{"alert":true}'),
      Buffer.alloc(0),
      Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x0d, 0x0a]),
      Buffer.from('{"a" :1}\r\n'),
    ];
    for (const body of bodies) {
      const answer = await post(ENDPOINTS.hmac.path, { ...signed(body), "content-encoding": "gzip" }, body);
      expect(Buffer.from((await jobCallOf(answer))?.body ?? [1, 2, 3])).toEqual(Buffer.from(body));
    }
  });
});

describe("an HMAC signature", () => {
  const { path } = ENDPOINTS.hmac;

  it("GitHub's example is accepted in each of the three headers, with and without sha256=, in either case", async () => {
    for (const header of ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"])
      for (const value of [
        GITHUB_SIGNATURE,
        `sha256=${GITHUB_SIGNATURE}`,
        // signature upper case
        GITHUB_SIGNATURE.toUpperCase(),
        `sha256=${GITHUB_SIGNATURE.toUpperCase()}`,
      ])
        expect([header, value, (await post(path, { [header]: value })).status]).toEqual([header, value, 202]);
  });

  it("truncated, too long, not hex, of another body, of another secret, with another prefix, empty or absent → 401", async () => {
    for (const value of [
      GITHUB_SIGNATURE.slice(0, -2),
      GITHUB_SIGNATURE.slice(0, -1),
      `${GITHUB_SIGNATURE}00`,
      `sha256=${GITHUB_SIGNATURE.slice(0, 32)}`,
      GITHUB_SIGNATURE.replace("7", "g"),
      sign("Hello, World"),
      createHmac("sha256", "other").update(GITHUB_BODY).digest("hex"),
      createHmac("sha1", GITHUB_SECRET).update(GITHUB_BODY).digest("hex"),
      `sha1=${GITHUB_SIGNATURE}`,
      `sha256=sha256=${GITHUB_SIGNATURE}`,
      `sha256= ${GITHUB_SIGNATURE}`,
      `${GITHUB_SIGNATURE}, ${GITHUB_SIGNATURE}`,
      Buffer.from(GITHUB_SIGNATURE, "hex").toString("base64"),
      "sha256=",
      "",
    ])
      expect([value, await post(path, { "x-signature-256": value })]).toMatchObject([
        value,
        { status: 401, text: UNAUTHORIZED },
      ]);
    expect(await post(path, {})).toMatchObject({ status: 401, text: UNAUTHORIZED });
    expect(await post(path, signed(GITHUB_BODY), "Hello, World?")).toMatchObject({ status: 401 });
  });

  it("two headers of which one is bad → 401, in any order and in one name too; two good ones → 202", async () => {
    const good = GITHUB_SIGNATURE;
    const bad = good.replace("7", "8");
    for (const [lines, status] of [
      [[`x-signature-256: ${good}`, `x-hub-signature-256: ${bad}`], 401],
      [[`x-signature-256: ${bad}`, `x-hub-signature-256: ${good}`], 401],
      [[`x-webhook-signature: ${bad}`, `x-hub-signature-256: ${good}`], 401],
      [[`x-signature-256: ${good}`, `x-signature-256: ${bad}`], 401],
      [[`x-signature-256: ${bad}`, `x-signature-256: ${good}`], 401],
      [[`x-signature-256: ${good}`, "x-hub-signature-256: "], 401],
      [[`x-signature-256: ${good}`, `x-hub-signature-256: sha256=${good}`], 202],
    ] as const)
      expect([lines, (await postLines(path, lines)).status]).toEqual([lines, status]);
  });
});

describe("a bearer token", () => {
  const { path } = ENDPOINTS.bearer;

  it("is accepted whatever the letter case of its scheme", async () => {
    for (const scheme of ["Bearer", "bearer", "BEARER"])
      expect((await post(path, { authorization: `${scheme} t0ken-With-Case` })).status).toBe(202);
  });

  it("in another case, a part of it, more than it, under another scheme, twice, empty or absent → 401", async () => {
    for (const lines of [
      ["authorization: Bearer t0ken-with-case"],
      ["authorization: Bearer t0ken-With-Cas"],
      ["authorization: Bearer t0ken-With-Case2"],
      ["authorization: Bearer t0ken-With-Case x"],
      ["authorization: Basic t0ken-With-Case"],
      ["authorization: t0ken-With-Case"],
      ["authorization: Bearer"],
      ["authorization: Bearer "],
      ["authorization: "],
      ["authorization: Bearer t0ken-With-Case", "authorization: Bearer t0ken-With-Case"],
      ["authorization: Bearer t0ken-With-Case", "authorization: Bearer other"],
      [],
    ])
      expect([lines, await postLines(path, lines)]).toEqual([lines, { status: 401, text: UNAUTHORIZED }]);
  });
});

describe("an API key", () => {
  const { path } = ENDPOINTS.apiKey;

  it("is accepted in its header, whatever that name's letter case", async () => {
    expect((await post(path, { "X-API-KEY": "k3y" })).status).toBe(202);
  });

  it("in another case, twice, empty, absent or in another header → 401", async () => {
    for (const lines of [
      ["x-api-key: K3y"],
      ["x-api-key: k3y", "x-api-key: k3y"],
      ["x-api-key: "],
      ["x-api-key: k3"],
      ["authorization: Bearer k3y"],
      [],
    ])
      expect([lines, await postLines(path, lines)]).toEqual([lines, { status: 401, text: UNAUTHORIZED }]);
  });
});

describe("routes and limits", () => {
  it("Health is text, other paths and other methods are refused", async () => {
    const health = await rawRequest(url, "GET /webhooks/health");
    expect(health).toMatchObject({ status: 200, body: "ok" });
    expect(health.headers["content-type"]).toMatch(/^text\/plain/);
    expect(await rawRequest(url, "GET /hooks/open")).toMatchObject({
      status: 405,
      headers: { allow: "POST" },
    });
    expect(await rawRequest(url, "POST /webhooks/health")).toMatchObject({
      status: 405,
      headers: { allow: "GET" },
    });
    for (const path of ["/hooks/%6Fpen", "/hooks/open/", "//hooks/open", "/hooks/OPEN", "/hooks"])
      expect([path, (await rawRequest(url, `POST ${path}`)).status]).toEqual([path, 404]);
  });

  it("A body of the limit is accepted, one byte more is 413, signed or not", async () => {
    const { path } = ENDPOINTS.hmac;
    const full = "x".repeat(MAX_BODY);
    expect((await post(path, signed(full), full)).status).toBe(202);
    const over = await post(path, signed(`${full}x`), `${full}x`);
    expect([over.status, JSON.parse(over.text).code]).toEqual([413, "body_too_large"]);
  });

  it("No room in the queue → 503 queue_full, and room again once the work is done", async () => {
    const { intake, at } = await startAlone(ENDPOINTS.open, 2);
    const send = () => rawRequest(at, "POST /hooks/open");
    expect([(await send()).status, (await send()).status]).toEqual([202, 202]);
    const refused = await send();
    expect([refused.status, JSON.parse(refused.body).code, refused.headers["retry-after"]]).toEqual([
      503,
      "queue_full",
      "5",
    ]);
    const claim = { limit: 1, jobIds: [], leaseMs: 60_000, maxAttempts: 1, subscriber: "test" };
    for (const lease of await intake.claim(claim)) await intake.ack(lease);
    expect((await send()).status).toBe(202);
  });
});

describe("refused requests", () => {
  it("10,000 bad signatures → no store writes", async () => {
    const { intake, at, journalFile } = await startAlone(ENDPOINTS.hmac, 10);
    const good = { ...signed(GITHUB_BODY), host: "a" };
    const sendGood = () => rawRequest(at, `POST ${ENDPOINTS.hmac.path}`, good, GITHUB_BODY);
    expect((await sendGood()).status).toBe(202);
    const before = await journalFile();

    const head = `host: a\r\ncontent-length: ${GITHUB_BODY.length}\r\nx-signature-256: ${sign("another body")}`;
    const request = `POST ${ENDPOINTS.hmac.path} HTTP/1.1\r\n${head}\r\n\r\n${GITHUB_BODY}`;
    const last = request.replace("host: a", "host: a\r\nconnection: close");
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => sendRaw(at, request.repeat(499) + last)),
    );
    const seen = new Map<number, number>();
    for (const { status } of answers.flat()) seen.set(status, (seen.get(status) ?? 0) + 1);
    expect([...seen]).toEqual([[401, 10_000]]);
    expect(await journalFile()).toEqual(before);
    expect((await intake.totals()).calls.ready).toBe(1);

    // The same measure does see the write of a good one.
    expect((await sendGood()).status).toBe(202);
    expect(await journalFile()).not.toEqual(before);
  });
});

describe("reloading", () => {
  it("New endpoints and secrets count at once, old ones no longer", async () => {
    const reloaded = new WebhookGateway({
      config: { bindAddress: LOCAL, maxBodyBytes: MAX_BODY, endpoints: [ENDPOINTS.open, ENDPOINTS.bearer] },
      serviceId: 1n,
      intake: store,
      logger,
    });
    await reloaded.start();
    onTestFinished(() => reloaded.stop());
    const at = `http://${reloaded.address}`;
    const auth = { mode: "bearer", secrets: [{ name: "secret", secret: "next" }] } as const;
    reloaded.reload({ bindAddress: LOCAL, maxBodyBytes: 3, endpoints: [{ ...ENDPOINTS.bearer, auth }] });
    const { path } = ENDPOINTS.bearer;
    expect((await rawRequest(at, "POST /hooks/open")).status).toBe(404);
    expect((await rawRequest(at, `POST ${path}`, { authorization: "Bearer t0ken-With-Case" })).status).toBe(
      401,
    );
    expect((await rawRequest(at, `POST ${path}`, { authorization: "Bearer next" }, "abc")).status).toBe(202);
    expect((await rawRequest(at, `POST ${path}`, { authorization: "Bearer next" }, "abcd")).status).toBe(413);
  });
});

describe("what is refused at start", () => {
  const endpoint = (lines: string) =>
    `service_id = 1\n[webhooks]\n[[webhooks.endpoints]]\njob_id = 1\n${lines}\n`;

  it("an empty secret", async () => {
    for (const auth of ["bearer", "hmac-sha256", "api-key"]) {
      expect(await mistakesOf(endpoint(`path = "/a"\nauth = "${auth}"\nsecret = ""`))).toMatchObject([
        { place: expect.stringContaining("webhooks.endpoints[0].secret") },
      ]);
      const fromEnv = endpoint(`path = "/a"\nauth = "${auth}"\nsecret = "env:EMPTY"`);
      expect(await mistakesOf(fromEnv, { env: { EMPTY: "" } })).toMatchObject([
        { place: expect.stringContaining("webhooks.endpoints[0].secret") },
      ]);
    }
  });

  it("a path that shadows /webhooks/health", async () => {
    expect(await mistakesOf(endpoint('path = "/webhooks/health"'))).toMatchObject([
      {
        place: expect.stringContaining("webhooks.endpoints[0].path"),
        message: expect.stringMatching(/shadows/),
      },
    ]);
  });
});
