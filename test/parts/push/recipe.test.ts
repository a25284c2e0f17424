import { readFile } from "node:fs/promises";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { signStandardWebhook, toSigningKey } from "../../../src/core/standard-webhooks.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

function signedHeaders(body: Buffer, time = Math.floor(Date.now() / 1_000)) {
  const key = toSigningKey(SECRET);
  if (key === undefined) throw new Error("expected a key");
  const signature = signStandardWebhook(key, `12.${time}.`, body);
  return { "webhook-id": "12", "webhook-timestamp": String(time), "webhook-signature": signature };
}

/** Loads the snippet of docs/push.md. */
async function recipe() {
  const page = await readFile(new URL("../../../docs/push.md", import.meta.url), "utf8");
  const [, code = ""] = /^```js\n([\s\S]*?)^```/m.exec(page) ?? [];
  process.env.PUSH_SECRET = SECRET;
  const url = `data:text/javascript,${encodeURIComponent(code)}`;
  return (await import(/* @vite-ignore */ url)) as { isSigned(headers: object, body: Buffer): boolean };
}

test.each([
  ["JSON", Buffer.from("{}")],
  ["text", Buffer.from("hello")],
  ["no text", Buffer.from([0xff, 0x00, 0xfe])],
  ["nothing", Buffer.alloc(0)],
])(
  "The snippet in docs/push.md accepts a signed body that is %s, and refuses another one",
  async (_kind, body) => {
    const { isSigned } = await recipe();
    expect(isSigned(signedHeaders(body), body)).toBe(true);
    expect(isSigned(signedHeaders(body), Buffer.concat([body, Buffer.from(" ")]))).toBe(false);
    expect(isSigned(signedHeaders(body, 1_784_733_333), body)).toBe(false);
    expect(isSigned({}, body)).toBe(false);
  },
);

test("The library for Node accepts a signed text when it is told not to parse it, as docs/push.md says", () => {
  const body = Buffer.from("hello");
  const webhook = new Webhook(SECRET);
  expect(() => webhook.verify(body, signedHeaders(body))).toThrow("JSON");
  expect(webhook.verify(body, signedHeaders(body), { jsonParse: false })).toBeUndefined();
});
