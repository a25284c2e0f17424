import { describe, expect, it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";

const path = "/hooks/bearer";

const webhooks = startBeforeAll(() =>
  startWebhooks([endpoint(path, { mode: "bearer", secrets: named("t0ken-With-Case") })]),
);

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

  it("is named by the refusal", async () => {
    const { headers } = await fetch(`${webhooks.url}${path}`, { method: "POST" });
    expect(headers.get("www-authenticate")).toBe("Bearer");
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
