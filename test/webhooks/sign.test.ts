import { expect, test } from "vitest";
import type { WebhookAuth } from "../../src/config/config.ts";
import { signWebhook } from "../../src/webhooks/auth/schemes.ts";

const BODY = Buffer.from("Hello, World!");
const headers = (auth: WebhookAuth) => signWebhook({ path: "/a", jobId: 1n, auth }, BODY);

test("Signs GitHub's example as GitHub does", () => {
  expect(
    headers({ mode: "hmac-sha256", secrets: [{ name: "secret", secret: "It's a Secret to Everybody" }] }),
  ).toEqual({
    "X-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
  });
});

test("Returns the header with the bearer token or API key", () => {
  expect(headers({ mode: "bearer", secrets: [{ name: "secret", secret: "t0ken" }] })).toEqual({
    Authorization: "Bearer t0ken",
  });
  expect(
    headers({ mode: "api-key", secrets: [{ name: "secret", secret: "k3y" }], header: "x-mine" }),
  ).toEqual({ "x-mine": "k3y" });
});

test("Returns no headers for an endpoint without auth", () => {
  expect(headers({ mode: "none" })).toEqual({});
});
