import { isUtf8 } from "node:buffer";
import { describe, expect, it, test } from "vitest";
import type { WebhookAuth } from "../../src/config/config.ts";
import { WEBHOOK_AUTH_MODES } from "../../src/config/webhooks.ts";
import { signWebhook, webhookPath } from "../../src/webhooks/auth/schemes.ts";
import { mistakesOf } from "../config/config-folder.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks } from "./harness.ts";

const secrets = named("0123456789abcdef");
const key = named("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
const toleranceSecs = 300;
const PATH = "/hooks/a";
const BODY = '{"id":"evt_1","event_id":"Ev1","type":"invoice.paid"}';

interface Sender {
  readonly auth: WebhookAuth;
  /** Header with the kind of event. */
  readonly event?: string;
  /** Header with the delivery's ID. */
  readonly id?: string;
}

const SENDERS: readonly Sender[] = [
  { auth: { mode: "none" } },
  { auth: { mode: "bearer", secrets } },
  { auth: { mode: "api-key", secrets, header: "x-gitlab-token" } },
  { auth: { mode: "hmac-sha256", secrets } },
  { auth: { mode: "standard-webhooks", secrets: key, toleranceSecs }, id: "webhook-id" },
  { auth: { mode: "svix", secrets: key, toleranceSecs }, id: "svix-id" },
  { auth: { mode: "github", secrets }, event: "X-GitHub-Event", id: "X-GitHub-Delivery" },
  { auth: { mode: "stripe", secrets, toleranceSecs } },
  { auth: { mode: "slack", secrets, toleranceSecs } },
  { auth: { mode: "shopify", secrets }, event: "X-Shopify-Topic", id: "X-Shopify-Webhook-Id" },
  { auth: { mode: "url-token", secrets } },
];

const webhooks = startBeforeAll(() => startWebhooks([]));

/** Sends lines to an endpoint that forwards `forwardHeaders`, and returns the metadata from headers. */
async function forwarded(forwardHeaders: readonly string[], lines: readonly string[]) {
  webhooks.use([endpoint(PATH, { mode: "none" }, { forwardHeaders })]);
  const { status } = await webhooks.postLines(PATH, lines);
  expect(status).toBe(202);
  return httpMetadata((await webhooks.take())[0]?.metadata);
}

function httpMetadata(metadata: Readonly<Record<string, string>> = {}) {
  return Object.fromEntries(Object.entries(metadata).filter(([name]) => name.startsWith("X-HTTP-")));
}

describe.each(SENDERS)("auth = $auth.mode", ({ auth, event, id }) => {
  it("forwards the content type, the configured headers, and headers that its sender gives a meaning", async () => {
    const hook = endpoint(PATH, auth, { forwardHeaders: ["x-request-id", "x-absent"] });
    webhooks.use([hook]);
    const signed = signWebhook(hook, Buffer.from(BODY), { deliveryId: "delivery-1" });
    const headers = {
      "Content-Type": "application/json; charset=utf-8",
      "X-Request-Id": "r1",
      "X-Other": "not forwarded",
      ...(event && { [event]: "invoice.paid" }),
      ...signed,
    };
    expect((await webhooks.post(webhookPath(hook), headers, BODY)).status).toBe(202);
    const [call] = await webhooks.take();
    expect(call?.metadata).toEqual({
      "X-WEBHOOK-ORIGIN": "webhook",
      "X-WEBHOOK-PATH": PATH,
      "X-CHAIN-SERVICE-ID": "42",
      "X-CHAIN-CALL-ID": String(call?.callId),
      "X-HTTP-CONTENT-TYPE": "application/json; charset=utf-8",
      "X-HTTP-X-REQUEST-ID": "r1",
      ...(event && { [`X-HTTP-${event.toUpperCase()}`]: "invoice.paid" }),
      ...(id && { [`X-HTTP-${id.toUpperCase()}`]: "delivery-1" }),
    });
  });

  it("cannot be configured to forward what proves to jobgate who sends", async () => {
    const sent = Object.keys(signWebhook(endpoint(PATH, auth), Buffer.from(BODY)));
    const proofs = sent.filter((name) => !/-(id|delivery|timestamp)$/i.test(name));
    expect(proofs.length).toBe(["none", "url-token"].includes(auth.mode) ? 0 : 1);
    const found = await mistakesOf(
      `service_id = 1\n[[webhooks.endpoints]]\npath = "/a"\njob_id = 1\nauth = "${auth.mode}"\n` +
        `${auth.mode === "none" ? "" : `secret = "${auth.secrets[0]?.secret}"\n`}` +
        `${auth.mode === "api-key" ? `api_key_header = "${auth.header}"\n` : ""}` +
        `forward_headers = ${JSON.stringify(["X-Request-Id", ...proofs])}\n`,
    );
    expect(found.map(({ place }) => place)).toEqual(
      proofs.map((_, i) => expect.stringContaining(`webhooks.endpoints[0].forward_headers[${i + 1}]`)),
    );
  });
});

test("Every auth mode has its test here", () => {
  expect(SENDERS.map(({ auth }) => auth.mode).sort()).toEqual(Object.keys(WEBHOOK_AUTH_MODES).sort());
});

describe("A forwarded header", () => {
  it("that was sent several times is joined with commas, in the order of its lines", async () => {
    const lines = [
      "X-Tag: a",
      "Content-Type: text/plain",
      "x-tag: b, c",
      "X-TAG:",
      "content-type: text/html",
    ];
    expect(await forwarded(["x-tag"], lines)).toEqual({
      "X-HTTP-CONTENT-TYPE": "text/plain, text/html",
      "X-HTTP-X-TAG": "a, b, c, ",
    });
  });

  it("that is absent is absent, and an empty one is empty", async () => {
    expect(await forwarded(["x-empty", "x-absent", "constructor", "__proto__"], ["X-Empty:"])).toEqual({
      "X-HTTP-X-EMPTY": "",
    });
  });

  it("is text whatever its bytes are: UTF-8 if it is that, else Latin-1", async () => {
    const bytes = (text: string) => Buffer.from(text).toString("latin1");
    expect(
      await forwarded(["x-utf8", "x-latin1"], [`X-Utf8: ${bytes("Zoë 💶")}`, "X-Latin1: Zo\xeb"]),
    ).toEqual({
      "X-HTTP-X-UTF8": "Zoë 💶",
      "X-HTTP-X-LATIN1": "Zoë",
    });
    const any = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString("latin1");
    const sendable = any.replace(/[^\t\x20-\x7e\x80-\xff]/g, "");
    const { "X-HTTP-X-ANY": value = "" } = await forwarded(["x-any"], [`X-Any: <${sendable}>`]);
    expect(value).toBe(`<${sendable}>`);
    expect(isUtf8(Buffer.from(value))).toBe(true);
  });

  it("can have 4,096 bytes over all its lines; a longer one is refused before anything is stored", async () => {
    const half = "x".repeat(2_047);
    const longest = await forwarded(["x-long"], [`X-Long: ${half}`, `X-Long: ${half}`]);
    expect(longest["X-HTTP-X-LONG"]).toHaveLength(4_096);
    for (const lines of [[`X-Long: ${half}`, `X-Long: ${half}x`], [`Content-Type: ${"x".repeat(4_097)}`]]) {
      const refused = await webhooks.postLines(PATH, lines);
      expect([refused.status, refused.json.code]).toEqual([431, "headers_too_large"]);
    }
    expect((await webhooks.postLines(PATH, [`X-Not-Forwarded: ${"x".repeat(9_000)}`])).status).toBe(202);
    expect(await webhooks.take()).toHaveLength(1);
  });

  it("cannot set or replace metadata of jobgate's own", async () => {
    const own = [
      ...["X-CHAIN-CALL-ID", "X-CHAIN-SERVICE-ID", "X-CHAIN-CALLER", "X-WEBHOOK-ORIGIN", "X-WEBHOOK-PATH"],
      ...["X-WEBHOOK-NAME", "X-X402-ORIGIN", "X-X402-QUOTE-DIGEST", "X-402-ANY", "traceparent"],
      ...["X-HTTP-CONTENT-TYPE", "X_CHAIN_CALL_ID"],
    ];
    const lines = own.map((name) => `${name}: forged`);
    for (const forwardHeaders of [[], own.map((name) => name.toLowerCase())]) {
      webhooks.use([endpoint(PATH, { mode: "none" }, { forwardHeaders })]);
      expect((await webhooks.postLines(PATH, lines)).status).toBe(202);
      const [call] = await webhooks.take();
      expect(call?.metadata).toEqual({
        "X-WEBHOOK-ORIGIN": "webhook",
        "X-WEBHOOK-PATH": PATH,
        "X-CHAIN-SERVICE-ID": "42",
        "X-CHAIN-CALL-ID": String(call?.callId),
        ...Object.fromEntries(forwardHeaders.map((name) => [`X-HTTP-${name.toUpperCase()}`, "forged"])),
      });
    }
  });

  it("does not tell two deliveries apart: a repeat keeps the headers of the first", async () => {
    const dedupe = { by: "body", windowMs: 60_000 } as const;
    webhooks.use([endpoint(PATH, { mode: "none" }, { forwardHeaders: ["x-request-id"], dedupe })]);
    const post = (requestId: string) => webhooks.post(PATH, { "X-Request-Id": requestId }, "same body");
    expect((await post("r1")).json.duplicate).toBeUndefined();
    expect((await post("r2")).json.duplicate).toBe(true);
    expect((await webhooks.take()).map(({ metadata }) => metadata["X-HTTP-X-REQUEST-ID"])).toEqual(["r1"]);
  });
});
