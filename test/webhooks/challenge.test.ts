import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endpoint, named, ranges, startWebhooks, UNAUTHORIZED, type WebhooksUnderTest } from "./harness.ts";

const secrets = named("secret");
const hmac = { mode: "hmac-sha256", secrets } as const;

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await startWebhooks([
    endpoint("/meta", hmac, {
      challenge: {
        parameter: "hub.challenge",
        method: "GET",
        verify: { parameter: "hub.verify_token", token: "v3rify" },
      },
    }),
    endpoint("/dropbox", hmac, { challenge: { parameter: "challenge", method: "GET" } }),
    endpoint("/graph", hmac, { challenge: { parameter: "validationToken", method: "POST" } }),
    endpoint("/away", hmac, {
      challenge: { parameter: "challenge", method: "GET" },
      allowCidrs: ranges("203.0.113.0/24"),
    }),
    endpoint(
      "/token",
      { mode: "url-token", secrets: named("0123456789abcdef") },
      {
        challenge: { parameter: "challenge", method: "GET" },
      },
    ),
    endpoint("/none", hmac),
  ]);
});
afterAll(async () => {
  expect(await webhooks.waiting()).toBe(0);
  await webhooks.stop();
});

const SAFE_TEXT = {
  "content-type": "text/plain; charset=utf-8",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};

describe("a challenge", () => {
  it("Meta's is answered as text with the right verify token, and 401 otherwise", async () => {
    const query = (token: string) =>
      `/meta?hub.mode=subscribe&hub.verify_token=${token}&hub.challenge=1158201444`;
    expect(await webhooks.get(query("v3rify"))).toMatchObject({
      status: 200,
      text: "1158201444",
      headers: SAFE_TEXT,
    });
    for (const bad of [
      query("V3rify"),
      query(""),
      query("v3rify&hub.verify_token=v3rify"),
      "/meta?hub.challenge=1",
    ])
      expect([bad, await webhooks.get(bad)]).toMatchObject([bad, UNAUTHORIZED]);
  });

  it("Dropbox's is answered decoded", async () => {
    expect(await webhooks.get("/dropbox?challenge=a%20b%2Bc+d")).toMatchObject({
      status: 200,
      text: "a b+c d",
    });
  });

  it("Microsoft Graph's comes by POST, without a signature; any other POST needs one", async () => {
    const token = "Validation%3a+Testing+client+application+reachability";
    expect(await webhooks.post(`/graph?validationToken=${token}`, {})).toMatchObject({
      status: 200,
      text: "Validation: Testing client application reachability",
      headers: SAFE_TEXT,
    });
    for (const path of ["/graph", "/graph?other=1"])
      expect([path, await webhooks.post(path, {}, "{}")]).toMatchObject([path, UNAUTHORIZED]);
    expect((await webhooks.get("/graph?validationToken=x")).status).toBe(405);
  });

  it("cannot make a browser run anything: the answer is plain text, not sniffed, in a sandbox", async () => {
    const answer = await webhooks.get(
      `/dropbox?challenge=${encodeURIComponent("<script>alert(1)</script>")}`,
    );
    expect(answer).toMatchObject({ text: "<script>alert(1)</script>", headers: SAFE_TEXT });
    expect(answer.headers["content-security-policy"]).toContain("sandbox");
  });

  it("is refused with 400 when it is missing, empty, sent twice, too long or has control characters", async () => {
    for (const query of [
      "",
      "?",
      "?challenge=",
      "?challenge=a&challenge=b",
      `?challenge=${"x".repeat(2_049)}`,
      "?challenge=a%0d%0ab",
    ])
      expect([query, (await webhooks.get(`/dropbox${query}`)).json.code]).toEqual([query, "bad_request"]);
    expect((await webhooks.get(`/dropbox?challenge=${"x".repeat(2_048)}`)).status).toBe(200);
  });

  it("is answered only where configured, only to allowed addresses, and with url-token only after its token", async () => {
    expect(await webhooks.get("/none?challenge=x")).toMatchObject({
      status: 405,
      headers: { allow: "POST" },
    });
    expect(await webhooks.get("/away?challenge=x")).toMatchObject(UNAUTHORIZED);
    expect(await webhooks.get("/token?challenge=x")).toMatchObject(UNAUTHORIZED);
    expect(await webhooks.get("/token/0123456789abcdeF?challenge=x")).toMatchObject(UNAUTHORIZED);
    expect(await webhooks.get("/token/0123456789abcdef?challenge=x")).toMatchObject({
      status: 200,
      text: "x",
    });
  });
});
