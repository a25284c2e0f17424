import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { toSigningKey } from "../../../src/core/standard-webhooks.ts";
import { CallbackKeys } from "../../../src/parts/callbacks/callback-keys.ts";
import { callbackHeaders, testMessage } from "../../../src/parts/callbacks/callback-request.ts";
import { testFolder } from "../../helpers/test-folder.ts";

const docs = await readFile(new URL("../../../docs/callbacks.md", import.meta.url), "utf8");
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const NOW = 1_784_733_333_333;

type IsGenuine = (
  headers: Readonly<Record<string, string>>,
  body: string,
  key: string | object,
  nowSecs: number,
) => boolean;

test("The recipe for Node accepts what jobgate signs, and nothing else", async () => {
  const [, code = ""] = /^```js\n([\s\S]*?)^```/m.exec(docs) ?? [];
  const path = join(await testFolder(), "recipe.mjs");
  await writeFile(path, code);
  const { isGenuine } = (await import(pathToFileURL(path).href)) as { isGenuine: IsGenuine };
  const keys = new CallbackKeys(() => Promise.reject(new Error("not asked")));
  await keys.use([`whsk_${randomBytes(32).toString("base64")}`]);
  const published = (JSON.parse(keys.published) as { keys: [object] }).keys[0];
  const secretKey = toSigningKey(SECRET);
  if (secretKey === undefined) throw new Error("expected a key");
  const { id, body } = testMessage(NOW);
  const text = Buffer.from(body).toString();
  for (const [key, signing, other] of [
    [SECRET, [secretKey], `whsec_${Buffer.alloc(32, 8).toString("base64")}`],
    [published, keys.keys, SECRET],
  ] as const) {
    const headers = callbackHeaders({ id, body }, signing, NOW);
    const now = NOW / 1000;
    expect(isGenuine(headers, text, key, now)).toBe(true);
    expect(isGenuine(headers, `${text} `, key, now)).toBe(false);
    expect(isGenuine({ ...headers, "webhook-id": "other" }, text, key, now)).toBe(false);
    expect(isGenuine(headers, text, other, now)).toBe(false);
    expect(isGenuine(headers, text, key, now + 301)).toBe(false);
  }
});
