import { createHmac } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { runHereWith } from "../commands/operator-commands.ts";
import { startEmbeddedJobgate } from "../helpers/embedded-jobgate.ts";
import { sendRaw } from "../helpers/raw-request.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";

const SECRET = "It's a Secret to Everybody";
const TOKEN = "t0ken-With-Case";
const CONFIG = `
service_id = 7
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/hmac"
job_id = 18446744073709551615
auth = "hmac-sha256"
secret = "${SECRET}"
[[webhooks.endpoints]]
path = "/hooks/bearer"
job_id = 2
auth = "bearer"
secret = "${TOKEN}"
`;
const jobgate = startBeforeAll(() => startEmbeddedJobgate({ config: CONFIG }));
const runner = startBeforeAll(() => startRunner({ address: jobgate.runnerAddress }));

const sign = (body: string | Uint8Array) => createHmac("sha256", SECRET).update(body).digest("hex");

async function send(path: string, headers: readonly string[], body: Uint8Array = Buffer.from("alert")) {
  const head = [
    `POST ${path} HTTP/1.1`,
    ...["host: a", "connection: close", `content-length: ${body.length}`, ...headers],
  ];
  const [answer] = await sendRaw(
    jobgate.webhooksUrl,
    Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), body]),
  );
  return { status: answer?.status, body: answer?.body };
}

const UNAUTHORIZED = { status: 401, body: '{"error":"unauthorized","code":"unauthorized"}' };

describe("Webhooks", () => {
  it("gzip, empty, non-UTF-8 body → signed and delivered byte for byte", async () => {
    const bodies = [gzipSync("alert"), Buffer.alloc(0), Buffer.from([0xff, 0xfe, 0x00, 0x80])];
    for (const [i, body] of bodies.entries()) {
      const headers = ["content-encoding: gzip", `x-hub-signature-256: sha256=${sign(body)}`];
      const answer = await send("/hooks/hmac", headers, body);
      const call = (await runner.waitFor(i + 1))[i];
      expect(answer).toEqual({
        status: 202,
        body: `{"status":"accepted","job_id":18446744073709551615,"call_id":${call?.callId}}`,
      });
      expect(call).toMatchObject({ jobId: 2n ** 64n - 1n, serviceId: 7n });
      expect(Buffer.from(call?.body ?? [])).toEqual(Buffer.from(body));
    }
  });

  it("Signature truncated, not hex, or of another body; a valid and an invalid header → 401, and no JobCall", async () => {
    const before = runner.calls.length;
    const good = sign("alert");
    for (const headers of [
      [`x-signature-256: ${good.slice(0, 62)}`],
      [`x-signature-256: ${good.slice(0, 63)}`],
      [`x-signature-256: ${"z".repeat(64)}`],
      [`x-signature-256: ${sign("another body")}`],
      [`x-signature-256: ${good}`, `x-hub-signature-256: ${sign("another body")}`],
      [`x-webhook-signature: ${sign("another body")}`, `x-signature-256: ${good}`],
      [],
    ])
      expect([headers, await send("/hooks/hmac", headers)]).toEqual([headers, UNAUTHORIZED]);
    // signature upper case: the last and only good one, so it is the next JobCall that the runner gets
    expect((await send("/hooks/hmac", [`x-signature-256: SHA256=${good.toUpperCase()}`])).status).toBe(202);
    await runner.waitFor(before + 1);
    expect(runner.calls).toHaveLength(before + 1);
  });

  it("Bearer token in another case, repeated or empty → 401, and no JobCall; scheme in another case → 202", async () => {
    const before = runner.calls.length;
    for (const headers of [
      ["authorization: Bearer T0KEN-WITH-CASE"],
      [`authorization: Bearer ${TOKEN}`, `authorization: Bearer ${TOKEN}`],
      ["authorization: Bearer "],
      ["authorization: "],
    ])
      expect([headers, await send("/hooks/bearer", headers)]).toEqual([headers, UNAUTHORIZED]);
    expect((await send("/hooks/bearer", [`authorization: bEARER ${TOKEN}`])).status).toBe(202);
    await runner.waitFor(before + 1);
    expect(runner.calls).toHaveLength(before + 1);
  });

  it("empty secret → refused at start", async () => {
    const files = { "jobgate.toml": CONFIG.replace(SECRET, "env:ALERTS_SECRET") };
    const { code, stdout } = await runHereWith(["check"], { files, env: { ALERTS_SECRET: "" } });
    expect(code).toBe(1);
    expect(stdout).toMatch(/webhooks\.endpoints\[0\]\.secret/);
  });

  it("a path that shadows /webhooks/health → refused at start", async () => {
    const files = { "jobgate.toml": CONFIG.replace("/hooks/bearer", "/webhooks/health") };
    const { code, stdout } = await runHereWith(["check"], { files });
    expect(code).toBe(1);
    expect(stdout).toMatch(/webhooks\.endpoints\[1\]\.path/);
  });
});
