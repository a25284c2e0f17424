import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { WebhookEndpoint } from "../../src/config/config.ts";
import { WEBHOOK_AUTH_MODES } from "../../src/config/webhooks.ts";
import { signWebhook, webhookPath } from "../../src/webhooks/auth/schemes.ts";
import { loadFiles } from "../config/config-folder.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startWebhooks } from "./harness.ts";

const KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const page = (name: string) => readFile(new URL(`../../docs/${name}`, import.meta.url), "utf8");
const senders = await page("webhook-senders.md");
const senderRecipes = await page("webhook-recipes.md");
const docs = senders + senderRecipes;
const recipes = [...docs.matchAll(/^```toml\n([\s\S]*?)^```/gm)].map(([, toml = ""]) => ({
  toml,
  path: /^path = "(.*)"/m.exec(toml)?.[1],
}));

/** Senders' names of headers that `sign-webhook` prints under another accepted name. */
const SENDERS_NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "/hooks/whatsapp": { "X-Signature-256": "X-Hub-Signature-256" },
};

const webhooks = startBeforeAll(() => startWebhooks([]));

test("The page has a recipe for each sender that it describes", () => {
  const sections = senderRecipes.split(/^## /m).slice(1);
  for (const section of sections) expect(section).toContain("```toml\n");
  expect(recipes.length).toBeGreaterThan(sections.length);
});

test.each(recipes)(
  "The recipe for $path loads unchanged, and accepts its sender's delivery once",
  async ({ toml }) => {
    const names = [...toml.matchAll(/env:(\w+)/g)].map(([, name = ""]) => name);
    const env = Object.fromEntries(
      names.map((name) => [name, /STANDARD|SVIX/.test(name) ? KEY : `${name}-0123456789abcdef`]),
    );
    const result = await loadFiles(`service_id = 1\n${toml}`, { env });
    if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
    expect(result.warnings).toEqual([]);
    for (const { allowCidrs: _, ...endpoint } of result.config.webhooks?.endpoints ?? []) {
      webhooks.use([endpoint]);
      const body = Buffer.from(JSON.stringify({ id: endpoint.path, event_id: endpoint.path }));
      const names = SENDERS_NAMES[endpoint.path] ?? {};
      const signed = Object.entries(signWebhook(endpoint, body)).map(([name, value]) => [
        names[name] ?? name,
        value,
      ]);
      const id = endpoint.dedupe?.by === "header" ? { [endpoint.dedupe.header]: "delivery-1" } : {};
      const headers = { ...Object.fromEntries(signed), ...id };
      const post = (sent = headers) => webhooks.post(webhookPath(endpoint), sent, body);
      expect((await post()).status).toBe(202);
      expect((await post()).json.duplicate).toBe(endpoint.dedupe === undefined ? undefined : true);
      if (signed.length > 0) expect((await post(id)).status).toBe(401);
      await tryChallenge(endpoint);
    }
  },
);

/** Passes the sender's test of the endpoint, which must start no job. */
async function tryChallenge(endpoint: WebhookEndpoint): Promise<void> {
  const { challenge } = endpoint;
  if (challenge === undefined) return;
  const waiting = await webhooks.waiting();
  const { parameter, verify } = challenge;
  const query = new URLSearchParams({ [parameter]: "sent-back" });
  if (verify !== undefined) query.set(verify.parameter, verify.token);
  const target = `${webhookPath(endpoint)}?${query}`;
  const answer = challenge.method === "GET" ? await webhooks.get(target) : await webhooks.post(target, {});
  expect([answer.status, answer.text]).toEqual([200, "sent-back"]);
  expect(await webhooks.waiting()).toBe(waiting);
}

test("The page describes every auth mode", () => {
  const table = senders.slice(0, senders.indexOf("## Changing a secret"));
  const told = [...table.matchAll(/^\| `([a-z0-9-]+)` \|/gm)].map(([, mode]) => mode);
  expect(told.sort()).toEqual(Object.keys(WEBHOOK_AUTH_MODES).sort());
});
