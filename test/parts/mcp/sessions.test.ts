import { beforeAll, expect, it } from "vitest";
import { Sessions } from "../../../src/parts/mcp/sessions.ts";
import { AccessTokens } from "../../../src/x402/calls/access-tokens.ts";

const tokensOf = async (secret: string) => {
  const tokens = new AccessTokens({ keepSecret: async () => secret });
  await tokens.load();
  return tokens;
};
let sessions: Sessions;
beforeAll(async () => {
  sessions = new Sessions(await tokensOf("ab".repeat(32)));
});

it("A session is found only from the origin that began it, and never once a part of its ID is changed", async () => {
  const { id } = sessions.begin("https://a.example", true);
  expect(sessions.find(id, "https://a.example")).toEqual({ id, expectsErrors: true });
  for (const origin of [undefined, "", "https://b.example", "https://a.example\n", "https://a.example:444"])
    expect([origin, sessions.find(id, origin)]).toEqual([origin, undefined]);
  expect(sessions.find(sessions.begin(undefined, false).id, "https://a.example")).toBeUndefined();
  const changes = [
    id.replace(".mpp.", ".x402."),
    `A${id.slice(1)}x`,
    id.slice(0, -1),
    `${id}A`,
    `${id}.`,
    `${id}.anything`,
    `${id}\n`,
    `.${id}`,
    `${id}, ${id}`,
    "",
    "..",
    "a.mpp",
  ];
  for (const changed of changes)
    expect([changed, sessions.find(changed, "https://a.example")]).toEqual([changed, undefined]);
  const others = new Sessions(await tokensOf("cd".repeat(32)));
  expect(others.find(id, "https://a.example")).toBeUndefined();
});

it("An ended session is not found, whatever follows its ID", () => {
  const session = sessions.begin(undefined, false);
  sessions.end(session);
  for (const id of [
    session.id,
    `${session.id}.`,
    `${session.id}.anything`,
    `${session.id}.x.y`,
    `${session.id} `,
  ])
    expect([id, sessions.find(id, undefined)]).toEqual([id, undefined]);
});
