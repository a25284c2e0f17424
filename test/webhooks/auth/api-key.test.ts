import { describe, expect, it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";

const path = "/hooks/key";

const webhooks = startBeforeAll(() =>
  startWebhooks([endpoint(path, { mode: "api-key", header: "X-API-Key", secrets: named("k3y", "0ld") })]),
);

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
