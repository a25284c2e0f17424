import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endpoint, named, startWebhooks, UNAUTHORIZED, type WebhooksUnderTest } from "../harness.ts";

const path = "/hooks/bearer";

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await startWebhooks([endpoint(path, { mode: "bearer", secrets: named("t0ken-With-Case") })]);
});
afterAll(() => webhooks?.stop());

describe("a bearer token", () => {
  it("is accepted in any letter case of its scheme", async () => {
    for (const scheme of ["Bearer", "bearer", "BEARER"])
      expect((await webhooks.post(path, { authorization: `${scheme} t0ken-With-Case` })).status).toBe(202);
  });

  it("is refused in another case, in part, with more behind it, under another scheme, twice, empty or absent", async () => {
    for (const lines of [
      ["authorization: Bearer t0ken-with-case"],
      ["authorization: Bearer t0ken-With-Cas"],
      ["authorization: Bearer t0ken-With-Case2"],
      ["authorization: Bearer t0ken-With-Case x"],
      ["authorization: Basic t0ken-With-Case"],
      ["authorization: t0ken-With-Case"],
      ["authorization: Bearer"],
      ["authorization: Bearer "],
      ["authorization: "],
      ["authorization: Bearer t0ken-With-Case", "authorization: Bearer t0ken-With-Case"],
      ["authorization: Bearer t0ken-With-Case", "authorization: Bearer other"],
      [],
    ])
      expect([lines, await webhooks.postLines(path, lines)]).toMatchObject([lines, UNAUTHORIZED]);
  });

  it("is accepted for any of several secrets", async () => {
    webhooks.use([endpoint(path, { mode: "bearer", secrets: named("new", "old") })]);
    for (const [token, status] of [
      ["new", 202],
      ["old", 202],
      ["older", 401],
    ] as const)
      expect((await webhooks.post(path, { authorization: `Bearer ${token}` })).status).toBe(status);
  });
});
