import { createPrivateKey, generateKeyPairSync, sign as signBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { beforeAll, describe, expect, it } from "vitest";
import { signWebhook } from "../../../src/webhooks/auth/schemes.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";
import { describeSignedSender } from "./signed-senders.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const needs = (prefix: string) => ["id", "timestamp", "signature"].map((part) => `${prefix}-${part}`);

const webhooks = startBeforeAll(() => startWebhooks([]));

describeSignedSender("standard-webhooks, symmetric", () => webhooks, {
  auth: (secrets) => ({ mode: "standard-webhooks", secrets, toleranceSecs: 300 }),
  secret: SECRET,
  otherSecret: OTHER_SECRET,
  sign: (body, secret, atSecs) => ({
    "webhook-id": ID,
    "webhook-timestamp": String(atSecs),
    "webhook-signature": new Webhook(secret).sign(ID, new Date(atSecs * 1000), body),
  }),
  signatureHeader: "webhook-signature",
  needs: needs("webhook"),
  toleranceSecs: 300,
});

describeSignedSender("svix", () => webhooks, {
  auth: (secrets) => ({ mode: "svix", secrets, toleranceSecs: 300 }),
  secret: SECRET,
  otherSecret: OTHER_SECRET,
  sign: (body, secret, atSecs) => ({
    "svix-id": ID,
    "svix-timestamp": String(atSecs),
    "svix-signature": new SvixWebhook(secret).sign(ID, new Date(atSecs * 1000), body),
  }),
  signatureHeader: "svix-signature",
  needs: needs("svix"),
  toleranceSecs: 300,
});

const PAIRS = [generateKeyPairSync("ed25519"), generateKeyPairSync("ed25519")].map(
  ({ publicKey, privateKey }) => ({
    publicKey: `whpk_${publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64")}`,
    privateKey,
  }),
);
const [PAIR, OTHER_PAIR] = PAIRS as [(typeof PAIRS)[number], (typeof PAIRS)[number]];

describeSignedSender("standard-webhooks, ed25519", () => webhooks, {
  auth: (secrets) => ({ mode: "standard-webhooks", secrets, toleranceSecs: 60 }),
  secret: PAIR.publicKey,
  otherSecret: OTHER_PAIR.publicKey,
  sign: (body, publicKey, atSecs) => {
    const pair = PAIRS.find((each) => each.publicKey === publicKey) ?? PAIR;
    const signature = signBytes(null, Buffer.from(`${ID}.${atSecs}.${body}`), pair.privateKey);
    return {
      "webhook-id": ID,
      "webhook-timestamp": String(atSecs),
      "webhook-signature": `v1a,${signature.toString("base64")}`,
    };
  },
  signatureHeader: "webhook-signature",
  needs: needs("webhook"),
  toleranceSecs: 60,
});

describe("Standard Webhooks", () => {
  const TIME = 1_614_265_330;
  const BODY = '{"test": 2432232314}';
  const SHARED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
  /** Test vector from Svix' server. */
  const PUBLIC_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
  const PRIVATE_KEY =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
  const ASYMMETRIC =
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";
  const auth = (...keys: string[]) =>
    ({ mode: "standard-webhooks", secrets: named(...keys), toleranceSecs: 300 }) as const;

  beforeAll(() => {
    webhooks.use([
      endpoint("/shared", auth(SECRET)),
      endpoint("/public", auth(PUBLIC_KEY)),
      endpoint("/both", auth(OTHER_SECRET, PUBLIC_KEY)),
    ]);
    webhooks.now = TIME * 1000;
  });
  const post = (path: string, signature: string, id = ID, time = String(TIME), body = BODY) =>
    webhooks.post(
      path,
      { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature },
      body,
    );

  it("the published examples, symmetric and ed25519, are accepted only with their own key", async () => {
    for (const [path, signature, status] of [
      ["/shared", SHARED, 202],
      ["/public", ASYMMETRIC, 202],
      ["/both", ASYMMETRIC, 202],
      ["/both", SHARED, 401],
      ["/shared", ASYMMETRIC, 401],
      ["/public", SHARED, 401],
    ] as const)
      expect([path, signature, (await post(path, signature)).status]).toEqual([path, signature, status]);
  });

  it("a signature of one version is refused under the name of the other", async () => {
    expect(await post("/shared", SHARED.replace("v1,", "v1a,"))).toMatchObject(UNAUTHORIZED);
    expect(await post("/public", ASYMMETRIC.replace("v1a,", "v1,"))).toMatchObject(UNAUTHORIZED);
  });

  it("a list is accepted for one good signature, up to 16 of them", async () => {
    const bad = `v1,${Buffer.alloc(32).toString("base64")}`;
    expect((await post("/shared", `v2,later ${bad} ${SHARED}`)).status).toBe(202);
    expect((await post("/shared", `${`${bad} `.repeat(15)}${SHARED}`)).status).toBe(202);
    expect(await post("/shared", `${`${bad} `.repeat(16)}${SHARED}`)).toMatchObject(UNAUTHORIZED);
    expect(await post("/shared", `${bad} ${bad}`)).toMatchObject(UNAUTHORIZED);
  });

  it("a list of more than 4 ed25519 signatures is refused, because each costs a hash of the body", async () => {
    const bad = `v1a,${Buffer.alloc(64).toString("base64")}`;
    expect((await post("/public", `${`${bad} `.repeat(3)}${ASYMMETRIC}`)).status).toBe(202);
    expect(await post("/public", `${ASYMMETRIC}${` ${bad}`.repeat(4)}`)).toMatchObject(UNAUTHORIZED);
  });

  it("another id or time than the signed one is refused", async () => {
    expect(await post("/shared", SHARED, `${ID}2`)).toMatchObject(UNAUTHORIZED);
    expect(await post("/shared", SHARED, ID, String(TIME + 1))).toMatchObject(UNAUTHORIZED);
    expect(await post("/shared", SHARED, ID, `+${TIME}`)).toMatchObject(UNAUTHORIZED);
    expect(await post("/shared", SHARED, ID, ` ${TIME}.5`)).toMatchObject(UNAUTHORIZED);
  });

  it("signed text cannot be split into another id, time and body", async () => {
    const signature = new Webhook(SECRET).sign("msg", new Date(TIME * 1000), `${TIME}.{}`);
    expect((await post("/shared", signature, "msg", String(TIME), `${TIME}.{}`)).status).toBe(202);
    expect(await post("/shared", signature, `msg.${TIME}`, String(TIME), "{}")).toMatchObject(UNAUTHORIZED);
  });

  it("the sender's private key signs for an endpoint with the public key", async () => {
    const options = { now: TIME * 1000, deliveryId: ID, signingKey: PRIVATE_KEY };
    expect(signWebhook(endpoint("/public", auth(PUBLIC_KEY)), Buffer.from(BODY), options)).toEqual({
      "webhook-id": ID,
      "webhook-timestamp": String(TIME),
      "webhook-signature": ASYMMETRIC,
    });
    expect(() => signWebhook(endpoint("/public", auth(PUBLIC_KEY)), Buffer.from(BODY))).toThrow(
      /private key/,
    );
    expect(createPrivateKey(PAIR.privateKey.export({ format: "pem", type: "pkcs8" })).asymmetricKeyType).toBe(
      "ed25519",
    );
  });
});
