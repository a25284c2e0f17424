import { createHmac } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import type { WebhookAuth, WebhookDedupe } from "../../src/config/config.ts";
import { signWebhook } from "../../src/webhooks/auth/schemes.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { endpoint, type Headers, named, startWebhooks } from "./harness.ts";

const WINDOW_MS = 86_400_000;
const NOW_MS = 1_790_000_000_000;
const BY_ID = { by: "id", windowMs: WINDOW_MS } as const;
const BY_HEADER = { by: "header", header: "x-id", windowMs: WINDOW_MS } as const;
const BY_BODY = { by: "body", windowMs: WINDOW_MS } as const;
const secrets = named("secret");
const key = { secrets: named("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), toleranceSecs: 300 };
const timed = { secrets, toleranceSecs: 300 };

let endpoints = 0;
const webhooks = startBeforeAll(() => startWebhooks([]));
beforeAll(() => {
  webhooks.now = NOW_MS;
});

/** A new endpoint and a function that sends to it, with a sender's signed headers and additional ones. */
function receiver(auth: WebhookAuth, dedupe?: WebhookDedupe) {
  endpoints += 1;
  const own = endpoint(`/hooks/${endpoints}`, auth, dedupe === undefined ? {} : { dedupe });
  webhooks.use([own]);
  return async (body: string, id: string, more: Headers = {}) => {
    const headers = signWebhook(own, Buffer.from(body), { now: webhooks.now ?? 0, deliveryId: id });
    const sent = Object.entries({ ...headers, ...more }).filter(([, value]) => value !== "");
    const { status, json } = await webhooks.post(own.path, Object.fromEntries(sent), body);
    if (status === 409) return String(json.code);
    return json.duplicate === true ? `repeat of ${json.call_id}` : `${status} ${json.call_id}`;
  };
}

/** Numbers the calls in the order of their IDs, which the store does not restart. */
async function outcomes(sent: readonly (() => Promise<string>)[]): Promise<string[]> {
  const seen: string[] = [];
  const answers: string[] = [];
  for (const send of sent) {
    const [what, id = ""] = (await send()).split(/ (?=\d+$)/);
    if (id !== "" && !seen.includes(id)) seen.push(id);
    answers.push(id === "" ? String(what) : `${what} #${seen.indexOf(id) + 1}`);
  }
  return answers;
}

describe("a repeated delivery", () => {
  it("is answered 202 with the first call's id and `duplicate`, and starts no job", async () => {
    const own = endpoint("/hooks/answer", { mode: "github", secrets }, { dedupe: BY_ID });
    webhooks.use([own]);
    const headers = signWebhook(own, Buffer.from("{}"), { deliveryId: "d1" });
    const before = await webhooks.waiting();
    const first = await webhooks.post(own.path, headers, "{}");
    const second = await webhooks.post(own.path, headers, "{}");
    expect(first.json).toEqual({ status: "accepted", job_id: 7, call_id: first.json.call_id });
    expect(second.status).toBe(202);
    expect(second.text).toBe(
      `{"status":"accepted","job_id":7,"call_id":${first.json.call_id},"duplicate":true}`,
    );
    expect(await webhooks.waiting()).toBe(before + 1);
  });

  it("is refused with 409 duplicate_conflict when its id is known with another body", async () => {
    const before = await webhooks.waiting();
    const send = receiver({ mode: "github", secrets }, BY_ID);
    expect(await outcomes([() => send("a", "d1"), () => send("b", "d1")])).toEqual([
      "202 #1",
      "duplicate_conflict",
    ]);
    expect(await webhooks.waiting()).toBe(before + 1);
  });

  it("is remembered for each endpoint separately", async () => {
    const one = endpoint("/hooks/one", { mode: "github", secrets }, { dedupe: BY_ID });
    const two = { ...one, path: "/hooks/two" };
    webhooks.use([one, two]);
    const headers = signWebhook(one, Buffer.from("x"), { deliveryId: "d1" });
    for (const { path } of [one, two])
      expect((await webhooks.post(path, headers, "x")).json.duplicate).toBeUndefined();
  });

  it("starts another job after the window, and where dedupe is off", async () => {
    const shortly = receiver({ mode: "github", secrets }, { by: "id", windowMs: 1 });
    const again = () => {
      webhooks.now = (webhooks.now ?? 0) + 2;
      return shortly("x", "d1");
    };
    expect(await outcomes([again, again])).toEqual(["202 #1", "202 #2"]);
    const always = receiver({ mode: "github", secrets });
    expect(await outcomes([() => always("x", "d1"), () => always("x", "d1")])).toEqual(["202 #1", "202 #2"]);
  });
});

describe("the id or body that identifies a repeat", () => {
  const cases: readonly {
    readonly what: string;
    readonly auth: WebhookAuth;
    readonly dedupe: WebhookDedupe;
    readonly sent: (send: ReturnType<typeof receiver>) => readonly (() => Promise<string>)[];
    readonly expected: readonly string[];
  }[] = [
    ...(["standard-webhooks", "svix"] as const).map((mode) => ({
      what: `${mode}: the id is signed, so equal bodies under two ids are two deliveries`,
      auth: { mode, ...key },
      dedupe: BY_ID,
      sent: (send: ReturnType<typeof receiver>) => [
        () => send("ping", "m1"),
        () => send("ping", "m2"),
        () => send("ping", "m1"),
        () => send("pong", "m1"),
      ],
      expected: ["202 #1", "202 #2", "repeat of #1", "duplicate_conflict"],
    })),
    ...(["github", "shopify"] as const).map((mode) => ({
      what: `${mode}: the id is not signed, so a captured body does not start a job under another id, or under none`,
      auth: { mode, secrets },
      dedupe: BY_ID,
      sent: (send: ReturnType<typeof receiver>) => [
        () => send("a", "d1"),
        () => send("a", "d2"),
        () => send("a", "", { "X-GitHub-Delivery": "", "X-Shopify-Webhook-Id": "" }),
        () => send("b", "d3"),
        () => send("b", "d1"),
      ],
      expected: ["202 #1", "repeat of #1", "repeat of #1", "202 #2", "duplicate_conflict"],
    })),
    {
      what: "stripe: the event id in the body, regardless of signing time and pending_webhooks",
      auth: { mode: "stripe", ...timed },
      dedupe: BY_ID,
      sent: (send) => [
        () => send('{"id":"evt_1","pending_webhooks": 2,"type":"a"}', ""),
        () => send('{"id":"evt_1","pending_webhooks": 1,"type":"a"}', ""),
        () => send('{"id":"evt_1","pending_webhooks": 1,"type":"b"}', ""),
        () => send('{"id":"evt_2","pending_webhooks": 1,"type":"a"}', ""),
        () => send("no JSON", ""),
        () => send("no JSON", ""),
      ],
      expected: ["202 #1", "repeat of #1", "duplicate_conflict", "202 #2", "202 #3", "repeat of #3"],
    },
    ...([BY_BODY, BY_HEADER] as const).map((dedupe) => ({
      what: `stripe by ${dedupe.by}: another pending_webhooks is the same delivery, too`,
      auth: { mode: "stripe", ...timed } as const,
      dedupe,
      sent: (send: ReturnType<typeof receiver>) => [
        () => send('{"id":"evt_1","pending_webhooks": 2}', "", { "X-Id": "1" }),
        () => send('{"id":"evt_1","pending_webhooks": 1}', "", { "X-Id": "1" }),
        () => send('{"id":"evt_2","pending_webhooks": 1}', "", { "X-Id": "2" }),
      ],
      expected: ["202 #1", "repeat of #1", "202 #2"],
    })),
    {
      what: "slack: the event id in the body, of a retry too; for a command the body",
      auth: { mode: "slack", ...timed },
      dedupe: BY_ID,
      sent: (send) => [
        () => send('{"event_id":"Ev1"}', ""),
        () => send('{"event_id":"Ev1"}', "", { "X-Slack-Retry-Num": "1" }),
        () => send('{"event_id":"Ev2"}', ""),
        () => send("command=%2Fa&trigger_id=1", ""),
        () => send("command=%2Fa&trigger_id=1", ""),
        () => send("command=%2Fa&trigger_id=2", ""),
      ],
      expected: ["202 #1", "repeat of #1", "202 #2", "202 #3", "repeat of #3", "202 #4"],
    },
    {
      what: "a header beside a signed body: counts as an unsigned id",
      auth: { mode: "hmac-sha256", secrets },
      dedupe: BY_HEADER,
      sent: (send) => [
        () => send("a", "", { "X-Id": "1" }),
        () => send("a", "", { "X-Id": "2" }),
        () => send("a", ""),
        () => send("b", "", { "X-Id": "1" }),
      ],
      expected: ["202 #1", "repeat of #1", "repeat of #1", "duplicate_conflict"],
    },
    ...(
      [
        { mode: "none" },
        { mode: "bearer", secrets },
        { mode: "api-key", secrets, header: "x-api-key" },
      ] as const
    ).map((auth) => ({
      what: `a header with ${auth.mode}: the id decides, or the body without one`,
      auth,
      dedupe: BY_HEADER,
      sent: (send: ReturnType<typeof receiver>) => [
        () => send("a", "", { "X-Id": "1" }),
        () => send("a", "", { "X-Id": "2" }),
        () => send("a", "", { "X-Id": "1" }),
        () => send("a", ""),
        () => send("b", ""),
        () => send("b", "", { "X-Id": "2" }),
      ],
      expected: ["202 #1", "202 #2", "repeat of #1", "repeat of #2", "202 #3", "duplicate_conflict"],
    })),
    {
      what: "the body alone: any header may change",
      auth: { mode: "bearer", secrets },
      dedupe: BY_BODY,
      sent: (send) => [
        () => send("a", "", { "X-Id": "1" }),
        () => send("a", "", { "X-Id": "2" }),
        () => send("b", ""),
      ],
      expected: ["202 #1", "repeat of #1", "202 #2"],
    },
    {
      what: "the provider's own header, configured by name: same as the default",
      auth: { mode: "svix", ...key },
      dedupe: { by: "header", header: "svix-id", windowMs: WINDOW_MS },
      sent: (send) => [() => send("a", "m1"), () => send("a", "m2"), () => send("a", "m1")],
      expected: ["202 #1", "202 #2", "repeat of #1"],
    },
  ];
  it.each(cases)("$what", async ({ auth, dedupe, sent, expected }) => {
    expect(await outcomes(sent(receiver(auth, dedupe)))).toEqual(expected);
  });
});

describe("repeats under load", () => {
  it("one of 50 racing repeats starts a job, and all are answered with its call id", async () => {
    const before = await webhooks.waiting();
    const send = receiver({ mode: "github", secrets }, BY_ID);
    const answers = await Promise.all(Array.from({ length: 50 }, () => send("race", "d1")));
    const first = answers.find((answer) => answer.startsWith("202 "))?.slice(4);
    expect(answers.filter((answer) => answer === `repeat of ${first}`)).toHaveLength(49);
    expect(await webhooks.waiting()).toBe(before + 1);
  });

  it("a repeat is answered although the queue is full, and a refused delivery is not remembered", async () => {
    const own = endpoint("/a", { mode: "github", secrets }, { dedupe: BY_ID });
    const full = await startWebhooks([own], { maxPending: 1 });
    const post = (id: string, body: string) =>
      full.post(own.path, signWebhook(own, Buffer.from(body), { deliveryId: id }), body);
    expect((await post("d1", "a")).status).toBe(202);
    expect((await post("d2", "b")).json.code).toBe("queue_full");
    expect((await post("d1", "a")).json).toMatchObject({ status: "accepted", duplicate: true });
    await full.take();
    expect((await post("d2", "b")).json.duplicate).toBeUndefined();
    await full.stop();
  });

  it("a request with a bad signature is refused before its id is read, and writes nothing", async () => {
    const own = endpoint("/a", { mode: "github", secrets }, { dedupe: BY_ID });
    webhooks.use([own]);
    const good = signWebhook(own, Buffer.from("first"), { deliveryId: "d1" });
    expect((await webhooks.post(own.path, good, "first")).status).toBe(202);
    const before = webhooks.lastCommit();
    const bad = {
      ...good,
      "X-Hub-Signature-256": `sha256=${createHmac("sha256", "other").update("x").digest("hex")}`,
    };
    for (const id of ["d1", "d2"])
      expect((await webhooks.post(own.path, { ...bad, "X-GitHub-Delivery": id }, "x")).status).toBe(401);
    expect((await webhooks.post(own.path, good, "first")).json.duplicate).toBe(true);
    expect(webhooks.lastCommit()).toBe(before);
    const next = signWebhook(own, Buffer.from("x"), { deliveryId: "d2" });
    expect((await webhooks.post(own.path, next, "x")).json.duplicate).toBeUndefined();
  });
});
