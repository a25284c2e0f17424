import { createHmac } from "node:crypto";
import Stripe from "stripe";
import { beforeAll, describe, expect, it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";
import { describeSignedSender } from "./signed-senders.ts";

const SECRET = "whsec_test_secret";
const TIME = 1_790_000_000;
const { webhooks: stripe } = new Stripe("sk_test_unused");
const headerFor = (payload: string, secret: string, timestamp: number) =>
  stripe.generateTestHeaderString({ payload, secret, timestamp });

const webhooks = startBeforeAll(() => startWebhooks([]));

describeSignedSender("stripe", () => webhooks, {
  auth: (secrets) => ({ mode: "stripe", secrets, toleranceSecs: 300 }),
  secret: SECRET,
  otherSecret: "whsec_another",
  sign: (body, secret, atSecs) => ({ "Stripe-Signature": headerFor(body, secret, atSecs) }),
  signatureHeader: "Stripe-Signature",
  needs: ["Stripe-Signature"],
  toleranceSecs: 300,
});

describe("a Stripe-Signature header", () => {
  const BODY = '{"id":"evt_1"}';
  const hex = (secret: string, time = TIME) =>
    createHmac("sha256", secret).update(`${time}.${BODY}`).digest("hex");
  const good = `v1=${hex(SECRET)}`;
  const bad = `v1=${hex("another")}`;
  beforeAll(() => {
    webhooks.use([endpoint("/a", { mode: "stripe", secrets: named(SECRET), toleranceSecs: 300 })]);
    webhooks.now = TIME * 1000;
  });
  const statusOf = async (value: string) =>
    (await webhooks.post("/a", { "Stripe-Signature": value }, BODY)).status;

  it("may have several signatures, as during a change of secrets, and other versions", async () => {
    expect(await statusOf(`t=${TIME},${bad},${good},v0=6ffbb59b`)).toBe(202);
    expect(await statusOf(`t=${TIME},${bad}`)).toBe(401);
    expect(await statusOf(`t=${TIME},v0=${hex(SECRET)}`)).toBe(401);
  });

  it("is refused with more than 16 signatures, though the last is good", async () => {
    const filled = (n: number) => `t=${TIME},${`${bad},`.repeat(n)}${good}`;
    expect(await statusOf(filled(15))).toBe(202);
    expect(await statusOf(filled(16))).toBe(401);
  });

  it("is refused without a time, with two times, or with a time that is not a number", async () => {
    for (const value of [
      good,
      `t=${TIME},t=${TIME},${good}`,
      `t=x,${good}`,
      `t=-${TIME},${good}`,
      `t=${TIME}.0,${good}`,
      "t=,v1=",
    ])
      expect([value, await webhooks.post("/a", { "Stripe-Signature": value }, BODY)]).toMatchObject([
        value,
        UNAUTHORIZED,
      ]);
  });
});
