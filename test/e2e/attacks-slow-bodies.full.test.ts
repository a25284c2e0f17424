import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { CLOSED_FACILITATOR, SALES_CONFIG } from "../helpers/small-configs.ts";

const CLIENTS = 8;
const WEBHOOKS = 200;
const SECRET = "It's a Secret to Everybody";
const CONFIG = `${SALES_CONFIG}${CLOSED_FACILITATOR}`
  .replace('price = "$0.01"', 'price = "$0.01"\ninput = { schema = "$DIR/schema.json" }')
  .replace('auth = "none"', `auth = "hmac-sha256"\nsecret = "${SECRET}"`);

/** Sends a request from one of the loopback addresses. @returns the status */
function send(
  url: string,
  from: { readonly localAddress: string; readonly headers?: Record<string, string>; readonly body: string },
): Promise<number> {
  const { body, ...options } = from;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", agent: false, ...options }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
    });
    sent.on("error", reject).end(body);
  });
}

it("Bodies that are slow to check, 8 clients at once → a fifth of the time at most, and webhooks stay under 100 ms", async () => {
  const schemas = await mkdtemp(join(tmpdir(), "jobgate-schemas-"));
  onTestFinished(() => rm(schemas, { recursive: true }));
  await writeFile(join(schemas, "schema.json"), '{"type":"string","pattern":"^(a+)+$"}');
  const jobgate = await startJobgate({ config: CONFIG.replace("$DIR", schemas) });
  onTestFinished(async () => void (await jobgate.stop()));

  const statuses: number[] = [];
  const startedAt = performance.now();
  let isOver = false;
  const attack = async (client: number) => {
    const localAddress = `127.0.0.${client + 2}`;
    for (let i = 0; !isOver; i++) {
      const body = JSON.stringify(`${"a".repeat(30)}!${client}-${i}`);
      statuses.push(await send(`${jobgate.x402Url}/x402/jobs/1/0`, { localAddress, body }));
    }
  };
  const attacks = Array.from({ length: CLIENTS }, (_, client) => attack(client));
  const took: number[] = [];
  for (let i = 0; i < WEBHOOKS || performance.now() - startedAt < 3_000; i++) {
    const body = `alert ${i}`;
    const signature = createHmac("sha256", SECRET).update(body).digest("hex");
    const sentAt = performance.now();
    const headers = { "x-hub-signature-256": `sha256=${signature}` };
    expect(
      await send(`${jobgate.webhooksUrl}/hooks/alerts`, { localAddress: "127.0.0.1", headers, body }),
    ).toBe(202);
    took.push(performance.now() - sentAt);
  }
  isOver = true;
  await Promise.all(attacks);
  const seconds = (performance.now() - startedAt) / 1_000;

  expect(new Set(statuses)).toEqual(new Set([422, 429]));
  // Each takes 25 ms or more, because the time of two threads is counted; the burst is that of a full queue.
  const checked = statuses.filter((status) => status === 422).length;
  expect(checked).toBeGreaterThan(0);
  expect(checked * 25).toBeLessThan(200 * seconds + 600);
  took.sort((a, b) => a - b);
  expect(took[Math.floor(took.length / 2)]).toBeLessThan(100);
});
