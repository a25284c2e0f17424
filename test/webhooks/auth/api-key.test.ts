import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endpoint, named, startWebhooks, UNAUTHORIZED, type WebhooksUnderTest } from "../harness.ts";

const path = "/hooks/key";

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await startWebhooks([
    endpoint(path, { mode: "api-key", header: "x-api-key", secrets: named("k3y", "0ld") }),
  ]);
});
afterAll(() => webhooks?.stop());

describe("an API key", () => {
  it("is accepted in its header, in any letter case of the name", async () => {
    expect((await webhooks.post(path, { "X-API-KEY": "k3y" })).status).toBe(202);
  });

  it("is refused in another case, twice, empty, absent or in another header", async () => {
    for (const lines of [
      ["x-api-key: K3y"],
      ["x-api-key: k3y", "x-api-key: k3y"],
      ["x-api-key: "],
      ["x-api-key: k3"],
      ["authorization: Bearer k3y"],
      [],
    ])
      expect([lines, await webhooks.postLines(path, lines)]).toMatchObject([lines, UNAUTHORIZED]);
  });

  it("is accepted for any of several secrets", async () => {
    expect((await webhooks.post(path, { "x-api-key": "0ld" })).status).toBe(202);
  });
});
