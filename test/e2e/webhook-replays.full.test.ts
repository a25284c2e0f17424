import { createHmac, randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { Webhook } from "standardwebhooks";
import { expect, onTestFinished, test } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { type Jobgate, startJobgate } from "../helpers/jobgate-process.ts";
import { openSocket } from "../helpers/raw-request.ts";
import { startRunner } from "../helpers/runner.ts";
import { testFolder } from "../helpers/test-folder.ts";

const DELIVERIES = 1_000;
const REPLAYS = howMany(20_000, 100_000);
const CONNECTIONS = 32;
const PIPELINED = 25;
const KEY = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const CONFIG = `
service_id = 1
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/standard"
job_id = 1
auth = "standard-webhooks"
tolerance_secs = 86400
secret = "${KEY}"
[[webhooks.endpoints]]
path = "/github"
job_id = 2
auth = "github"
secret = "secret"
`;

interface Delivery {
  readonly body: string;
  /** The request, the same each time or with another id that the signature does not cover. */
  request(): string;
}

function deliveryOf(number: number): Delivery {
  const body = JSON.stringify({ number });
  const request = (path: string, ...headers: readonly string[]) =>
    `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n${headers.join("\r\n")}\r\n\r\n${body}`;
  if (number % 2 === 0) {
    const id = `msg_${number}`;
    const at = new Date();
    const bytes = request(
      "/standard",
      `webhook-id: ${id}`,
      `webhook-timestamp: ${Math.floor(at.getTime() / 1000)}`,
      `webhook-signature: ${new Webhook(KEY).sign(id, at, body)}`,
    );
    return { body, request: () => bytes };
  }
  const signature = createHmac("sha256", "secret").update(body).digest("hex");
  const fresh = () => `x-github-delivery: ${randomUUID()}`;
  return { body, request: () => request("/github", `x-hub-signature-256: sha256=${signature}`, fresh()) };
}

interface Seen {
  readonly callIds: Set<number>;
  /** Answers that did not say that it is a duplicate. */
  firsts: number;
}

/** Sends deliveries from the end of `left`, and puts unanswered ones back when the socket breaks. */
async function sendAll(url: string, left: Delivery[], seen: Map<Delivery, Seen>): Promise<void> {
  const socket = await openSocket(url);
  try {
    while (left.length > 0) {
      const batch = left.splice(-PIPELINED);
      const answered = await exchange(socket, batch);
      for (const [i, { callId, isDuplicate }] of answered.entries()) {
        const entry = seen.get(batch[i] as Delivery) as Seen;
        entry.callIds.add(callId);
        if (!isDuplicate) entry.firsts += 1;
      }
      if (answered.length < batch.length) {
        left.push(...batch.slice(answered.length));
        return;
      }
    }
  } finally {
    socket.destroy();
  }
}

/** The answers to pipelined requests, in their order; fewer when the connection breaks. */
function exchange(
  socket: Socket,
  batch: readonly Delivery[],
): Promise<{ callId: number; isDuplicate: boolean }[]> {
  return new Promise((resolve, reject) => {
    let text = "";
    const answers = () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) [\s\S]*?\r\n\r\n(\{[^}]*\})/g)];
    const finish = () => {
      socket.removeAllListeners();
      socket.on("error", () => undefined);
      const parsed = answers().map(([, status, body = ""]) => {
        if (status !== "202") reject(new Error(`${status} ${body}`));
        const { call_id, duplicate } = JSON.parse(body) as { call_id: number; duplicate?: boolean };
        return { callId: call_id, isDuplicate: duplicate === true };
      });
      resolve(parsed);
    };
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (answers().length === batch.length) finish();
    });
    socket.on("error", finish);
    socket.on("close", finish);
    socket.write(batch.map((delivery) => delivery.request()).join(""));
  });
}

test(`${REPLAYS} replays of ${DELIVERIES} signed deliveries from ${CONNECTIONS} connections make a job of each, over a kill -9 in the middle`, async () => {
  const folder = await testFolder();
  const start = async (): Promise<Jobgate> => {
    const started = await startJobgate({ config: CONFIG, folder });
    onTestFinished(async () => void (await started.stop()));
    return started;
  };

  const deliveries = Array.from({ length: DELIVERIES }, (_, i) => deliveryOf(i));
  const seen = new Map(deliveries.map((delivery) => [delivery, { callIds: new Set<number>(), firsts: 0 }]));
  // New deliveries come in until two thirds are sent, each followed by its replays over the next third.
  const moments = deliveries.flatMap((delivery, i) =>
    Array.from({ length: REPLAYS / DELIVERIES }, (_, k) => ({
      delivery,
      at: (2 * i) / DELIVERIES + (k * DELIVERIES) / REPLAYS,
    })),
  );
  // Taken from its end.
  const left = moments.sort((one, other) => other.at - one.at).map(({ delivery }) => delivery);

  const before = await start();
  const sending = Promise.all(
    Array.from({ length: CONNECTIONS }, () => sendAll(before.webhooksUrl, left, seen)),
  );
  const half = setInterval(() => {
    if (left.length < REPLAYS / 2) before.kill("SIGKILL");
  }, 5);
  await sending;
  clearInterval(half);
  await before.exited;
  expect(left.length).toBeGreaterThan(REPLAYS / 4);
  expect(left.length).toBeLessThan(REPLAYS / 2 + CONNECTIONS * PIPELINED);

  const after = await start();
  // A socket that breaks puts back what it sent.
  for (let tries = 0; tries < 10 && left.length > 0; tries++)
    await Promise.all(Array.from({ length: CONNECTIONS }, () => sendAll(after.webhooksUrl, left, seen)));
  expect(left).toEqual([]);

  const callIds = [...seen.values()].flatMap((entry) => [...entry.callIds]);
  expect(callIds).toHaveLength(DELIVERIES);
  expect(new Set(callIds).size).toBe(DELIVERIES);
  // An answer that the crash swallowed may have been the first.
  for (const { firsts } of seen.values()) expect(firsts).toBeLessThanOrEqual(1);

  // Work is delivered in the order in which it was accepted: after the last one there is nothing.
  const last = deliveryOf(DELIVERIES);
  await sendAll(after.webhooksUrl, [last], new Map([[last, { callIds: new Set(), firsts: 0 }]]));
  const runner = await startRunner({ address: after.runnerAddress });
  onTestFinished(() => runner.stop());
  await runner.waitFor(DELIVERIES + 1);
  const delivered = runner.calls.map(({ body }) => Buffer.from(body).toString());
  expect(delivered.at(-1)).toBe(last.body);
  expect(delivered.sort()).toEqual([...deliveries, last].map(({ body }) => body).sort());
});
