import { createHmac } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";
import { describeSignedSender } from "./signed-senders.ts";

const SECRET = "8f742231b10e8888abcd99yyyzzz85a5";
const auth = { mode: "slack", secrets: named(SECRET), toleranceSecs: 300 } as const;
const hmac = (text: string, secret = SECRET) => createHmac("sha256", secret).update(text).digest("hex");
const sign = (body: string, secret: string, atSecs: number) => ({
  "X-Slack-Request-Timestamp": String(atSecs),
  "X-Slack-Signature": `v0=${hmac(`v0:${atSecs}:${body}`, secret)}`,
});

const webhooks = startBeforeAll(() => startWebhooks([]));

describeSignedSender("slack", () => webhooks, {
  auth: (secrets) => ({ ...auth, secrets }),
  secret: SECRET,
  otherSecret: "another",
  sign,
  signatureHeader: "X-Slack-Signature",
  needs: ["X-Slack-Signature", "X-Slack-Request-Timestamp"],
  toleranceSecs: 300,
});

describe("slack", () => {
  const TIME = 1_531_420_618;
  beforeAll(() => {
    webhooks.use([endpoint("/a", auth)]);
    webhooks.now = TIME * 1000;
  });

  it("Slack's published example is accepted", async () => {
    const body =
      "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const headers = { "X-Slack-Request-Timestamp": String(TIME), "X-Slack-Signature": signature };
    expect((await webhooks.post("/a", headers, body)).status).toBe(202);
    expect(
      await webhooks.post("/a", { ...headers, "X-Slack-Request-Timestamp": String(TIME + 1) }, body),
    ).toMatchObject(UNAUTHORIZED);
  });

  it("a signed url_verification gets its challenge back as plain text, and starts no job", async () => {
    const before = await webhooks.waiting();
    const body = JSON.stringify({ token: "x", challenge: "<b>3eZbrw1aBm2r</b>", type: "url_verification" });
    const answer = await webhooks.post("/a", sign(body, SECRET, TIME), body);
    expect(answer).toMatchObject({
      status: 200,
      text: "<b>3eZbrw1aBm2r</b>",
      headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
    });
    expect(await webhooks.post("/a", sign(body, "another", TIME), body)).toMatchObject(UNAUTHORIZED);
    expect(await webhooks.waiting()).toBe(before);
  });

  it("a challenge that is too long or has control characters is refused", async () => {
    for (const challenge of ["x".repeat(2_049), "a\r\nb"]) {
      const body = JSON.stringify({ type: "url_verification", challenge });
      expect((await webhooks.post("/a", sign(body, SECRET, TIME), body)).status).toBe(400);
    }
  });
});
