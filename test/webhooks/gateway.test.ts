import { createHmac } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import type { WebhookEndpoint } from "../../src/config/config.ts";
import { UnknownOutcomeError } from "../../src/core/errors.ts";
import { signWebhook, webhookPath } from "../../src/webhooks/auth/schemes.ts";
import { mistakesOf } from "../config/config-folder.ts";
import { rawRequest, sendRaw } from "../helpers/raw-request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { endpoint, MAX_BODY, named, startWebhooks, UNAUTHORIZED, type WebhooksUnderTest } from "./harness.ts";

const SECRET = "It's a Secret to Everybody";
const KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODY = "Hello, World!";
const secrets = named(SECRET);
const timed = { secrets, toleranceSecs: 300 };
const OPEN = endpoint("/hooks/open", { mode: "none" });
const BEARER = endpoint("/hooks/bearer", { mode: "bearer", secrets: named("t0ken") });
const HMAC: WebhookEndpoint = {
  path: "/hooks/hmac",
  jobId: 2n ** 64n - 1n,
  auth: { mode: "hmac-sha256", secrets },
  name: "Alerts",
};
const ENDPOINTS = [
  ...[OPEN, BEARER, HMAC],
  endpoint("/hooks/key", { mode: "api-key", secrets: named("k3y"), header: "x-api-key" }),
  endpoint("/hooks/github", { mode: "github", secrets }),
  endpoint("/hooks/stripe", { mode: "stripe", ...timed }),
  endpoint("/hooks/slack", { mode: "slack", ...timed }),
  endpoint("/hooks/shopify", { mode: "shopify", secrets }),
  endpoint("/hooks/standard", { mode: "standard-webhooks", secrets: named(KEY), toleranceSecs: 300 }),
  endpoint("/hooks/svix", { mode: "svix", secrets: named(KEY), toleranceSecs: 300 }),
  endpoint("/hooks/token", { mode: "url-token", secrets: named("t0ken-in-the-path") }),
];

const sign = (body: string | Uint8Array) => createHmac("sha256", SECRET).update(body).digest("hex");
const signed = (body: string | Uint8Array) => ({ "x-signature-256": `sha256=${sign(body)}` });

const webhooks = startBeforeAll(() => startWebhooks(ENDPOINTS));

async function startAlone(alone: WebhookEndpoint, maxPending: number): Promise<WebhooksUnderTest> {
  const started = await startWebhooks([alone], { maxPending });
  onTestFinished(() => started.stop());
  return started;
}

describe("an accepted webhook", () => {
  it("is answered 202 with its job and call, and delivered with exactly its metadata", async () => {
    const answer = await webhooks.post(HMAC.path, signed(BODY), BODY);
    const [call] = await webhooks.take();
    expect(answer.status).toBe(202);
    expect(answer.text).toBe(`{"status":"accepted","job_id":18446744073709551615,"call_id":${call?.callId}}`);
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(call).toEqual({
      callId: expect.any(Number),
      jobId: 2n ** 64n - 1n,
      serviceId: 42n,
      body: Buffer.from(BODY),
      metadata: {
        "X-WEBHOOK-ORIGIN": "webhook",
        "X-WEBHOOK-PATH": "/hooks/hmac",
        "X-WEBHOOK-NAME": "Alerts",
        "X-CHAIN-SERVICE-ID": "42",
        "X-CHAIN-CALL-ID": String(call?.callId),
      },
    });
  });

  it("has no name when none is configured", async () => {
    await webhooks.post(OPEN.path, {});
    const [call] = await webhooks.take();
    expect(call?.metadata).toEqual({
      "X-WEBHOOK-ORIGIN": "webhook",
      "X-WEBHOOK-PATH": "/hooks/open",
      "X-CHAIN-SERVICE-ID": "42",
      "X-CHAIN-CALL-ID": String(call?.callId),
    });
  });

  it("is made by sign-webhook's headers and path, in every mode", async () => {
    for (const each of ENDPOINTS) {
      const headers = signWebhook(each, Buffer.from(BODY));
      const { status } = await webhooks.post(webhookPath(each), headers, BODY);
      expect([each.path, status]).toEqual([each.path, 202]);
      expect(await webhooks.take()).toMatchObject([
        { jobId: each.jobId, metadata: { "X-WEBHOOK-PATH": each.path } },
      ]);
    }
  });

  it("is verified and delivered byte for byte: gzip, empty, not UTF-8", async () => {
    for (const body of [
      gzipSync('{"alert":true}'),
      Buffer.alloc(0),
      Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x0d, 0x0a]),
      Buffer.from('{"a" :1}\r\n'),
    ]) {
      const headers = { ...signed(body), "content-encoding": "gzip" };
      expect((await webhooks.post(HMAC.path, headers, body)).status).toBe(202);
      expect((await webhooks.take()).map((call) => call.body)).toEqual([Buffer.from(body)]);
    }
  });
});

describe("routes and limits", () => {
  it("Health is text; other paths and methods are refused", async () => {
    const health = await webhooks.get("/webhooks/health");
    expect(health).toMatchObject({ status: 200, text: "ok" });
    expect(health.headers["content-type"]).toMatch(/^text\/plain/);
    expect(await webhooks.get("/hooks/open")).toMatchObject({ status: 405, headers: { allow: "POST" } });
    expect(await webhooks.post("/webhooks/health", {})).toMatchObject({
      status: 405,
      headers: { allow: "GET, HEAD" },
    });
    for (const path of ["/hooks/%6Fpen", "/hooks/open/", "//hooks/open", "/hooks/OPEN", "/hooks"])
      expect([path, (await webhooks.post(path, {})).status]).toEqual([path, 404]);
  });

  it("A body of max_body_bytes is accepted, one byte more is 413, signed or not", async () => {
    const full = "x".repeat(MAX_BODY);
    expect((await webhooks.post(HMAC.path, signed(full), full)).status).toBe(202);
    const over = await webhooks.post(HMAC.path, signed(`${full}x`), `${full}x`);
    expect([over.status, over.json.code]).toEqual([413, "body_too_large"]);
  });

  it.each<[string, Partial<WebhookEndpoint>, string, number]>([
    ["by its ID", { dedupe: { by: "header", header: "x-id", windowMs: 60_000 } }, "it starts one job", 1],
    ["nowhere", {}, "it may start a second job", 2],
  ])(
    "A store lost while it commits is 503, which says what a repeat does where it is recognised %s",
    async (...row) => {
      const [, more, advice, calls] = row;
      const { store, post, waiting, log } = await startAlone({ ...OPEN, ...more }, 10);
      const { accept, acceptOnce } = store;
      const lose = () => Promise.reject(new UnknownOutcomeError("the connection was lost during a commit"));
      store.accept = (call) => accept.call(store, call).then(lose);
      store.acceptOnce = (call, delivery) => acceptOnce.call(store, call, delivery).then(lose);
      const { status, json, headers } = await post(OPEN.path, { "x-id": "7" }, BODY);
      expect([status, json.code, headers["retry-after"]]).toEqual([503, "store_unavailable", "5"]);
      expect(json.error).toContain(advice);
      const logged = {
        msg: "it is not known whether a webhook was stored",
        request: expect.stringMatching(/^r[0-9a-f]{10}-1$/),
        endpoint: OPEN.path,
      };
      expect(log.filter(({ level }) => Number(level) >= 50)).toMatchObject([logged]);
      Object.assign(store, { accept, acceptOnce });
      expect((await post(OPEN.path, { "x-id": "7" }, BODY)).status).toBe(202);
      expect(await waiting()).toBe(calls);
    },
  );

  it("A full queue is 503 queue_full, until work is done", async () => {
    const alone = await startAlone(OPEN, 2);
    const send = () => alone.post(OPEN.path, {});
    expect([(await send()).status, (await send()).status]).toEqual([202, 202]);
    const refused = await send();
    expect([refused.status, refused.json.code, refused.headers["retry-after"]]).toEqual([
      503,
      "queue_full",
      "5",
    ]);
    await alone.take();
    expect((await send()).status).toBe(202);
  });
});

describe("refused requests", () => {
  it("200 bad signatures cause no store writes", async () => {
    const { url, store, post, lastCommit } = await startAlone(HMAC, 10);
    const sendGood = () => post(HMAC.path, signed(BODY), BODY);
    expect((await sendGood()).status).toBe(202);
    const before = lastCommit();

    const head = `host: a\r\ncontent-length: ${BODY.length}\r\nx-signature-256: ${sign("another body")}`;
    const request = `POST ${HMAC.path} HTTP/1.1\r\n${head}\r\n\r\n${BODY}`;
    const last = request.replace("host: a", "host: a\r\nconnection: close");
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => sendRaw(url, request.repeat(19) + last)),
    );
    const seen = new Map<number, number>();
    for (const { status } of answers.flat()) seen.set(status, (seen.get(status) ?? 0) + 1);
    expect([...seen]).toEqual([[401, 200]]);
    expect(lastCommit()).toBe(before);
    expect((await store.totals()).calls.ready).toBe(1);

    // The number does change with the write of a good request.
    expect((await sendGood()).status).toBe(202);
    expect(lastCommit()).not.toBe(before);
  });
});

describe("reloading", () => {
  it("New endpoints and secrets apply at once, and old ones no longer", async () => {
    const { url, gateway, ...reloaded } = await startAlone(OPEN, 100);
    const { path } = BEARER;
    const post = (token: string, body = "abc") =>
      rawRequest(url, `POST ${path}`, { authorization: `Bearer ${token}` }, body);
    reloaded.use([{ ...BEARER, auth: { mode: "bearer", secrets: named("next") } }], { maxBodyBytes: 3 });
    expect((await rawRequest(url, "POST /hooks/open")).status).toBe(404);
    expect((await post("t0ken")).status).toBe(401);
    expect((await post("next")).status).toBe(202);
    expect((await post("next", "abcd")).status).toBe(413);
    expect(gateway.address).toBe(url.replace("http://", ""));
    reloaded.use([BEARER]);
    expect((await post("next")).body).toBe(UNAUTHORIZED.text);
    expect((await post("t0ken", "abcd")).status).toBe(202);
  });
});

describe("refused configurations", () => {
  const configured = (lines: string) =>
    `service_id = 1\n[webhooks]\n[[webhooks.endpoints]]\njob_id = 1\n${lines}\n`;

  it("an empty secret", async () => {
    for (const auth of ["bearer", "hmac-sha256", "api-key", "github", "standard-webhooks", "url-token"]) {
      expect(await mistakesOf(configured(`path = "/a"\nauth = "${auth}"\nsecret = ""`))).toMatchObject([
        { place: expect.stringContaining("webhooks.endpoints[0].secret") },
      ]);
      const fromEnv = configured(`path = "/a"\nauth = "${auth}"\nsecret = "env:EMPTY"`);
      expect(await mistakesOf(fromEnv, { env: { EMPTY: "" } })).toMatchObject([
        { place: expect.stringContaining("webhooks.endpoints[0].secret") },
      ]);
    }
  });

  it("a path that shadows /webhooks/health", async () => {
    expect(await mistakesOf(configured('path = "/webhooks/health"'))).toMatchObject([
      {
        place: expect.stringContaining("webhooks.endpoints[0].path"),
        message: expect.stringMatching(/shadows/),
      },
    ]);
  });
});
