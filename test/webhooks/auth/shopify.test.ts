import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";
import { describeSignedSender } from "./signed-senders.ts";

const digest = (body: string, secret: string) => createHmac("sha256", secret).update(body);

const webhooks = startBeforeAll(() => startWebhooks([]));

// Shopify publishes no example: signed as its documentation says.
describeSignedSender("shopify", () => webhooks, {
  auth: (secrets) => ({ mode: "shopify", secrets }),
  secret: "hush",
  otherSecret: "another",
  sign: (body, secret) => ({ "X-Shopify-Hmac-Sha256": digest(body, secret).digest("base64") }),
  signatureHeader: "X-Shopify-Hmac-Sha256",
  needs: ["X-Shopify-Hmac-Sha256"],
});

test("A digest in hex is refused", async () => {
  webhooks.use([endpoint("/a", { mode: "shopify", secrets: named("hush") })]);
  const hex = digest("order", "hush").digest("hex");
  expect(await webhooks.post("/a", { "X-Shopify-Hmac-Sha256": hex }, "order")).toMatchObject(UNAUTHORIZED);
  expect(
    (
      await webhooks.post(
        "/a",
        { "X-Shopify-Hmac-Sha256": digest("order", "hush").digest("base64") },
        "order",
      )
    ).status,
  ).toBe(202);
});
