// A runner for jobgate that returns the reversed body of each JobCall.
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const ADDRESS = process.env.JOBGATE_RUNNER ?? "127.0.0.1:8403";
const TOKEN = process.env.RUNNER_TOKEN;
const PROTO = fileURLToPath(new URL("../../proto/jobgate/v1/runner.proto", import.meta.url));

const definition = protoLoader.loadSync(PROTO, {
  longs: String,
  enums: String,
  keepCase: true,
  defaults: true,
});
const { RunnerService } = grpc.loadPackageDefinition(definition).jobgate.v1;
const client = new RunnerService(ADDRESS, grpc.credentials.createInsecure(), {
  "grpc.keepalive_time_ms": 15_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.max_reconnect_backoff_ms": 500,
  "grpc.max_receive_message_length": -1,
});
const metadata = new grpc.Metadata();
if (TOKEN) metadata.set("authorization", `Bearer ${TOKEN}`);

/** Calls Ack, Nack or Extend for one delivery. @returns its status */
async function ask(method, request) {
  const { statuses } = await promisify(client[method].bind(client))(request, metadata, {
    deadline: Date.now() + 10_000,
  });
  return statuses[0];
}

/** Runs the job. @returns the outcome for jobgate */
async function work({ body, attempt }) {
  const text = body.toString();
  if (text.startsWith("fail")) return { method: "Nack", outcome: { fail: { reason: "asked to fail" } } };
  if (text.startsWith("retry") && attempt === 1)
    return { method: "Nack", outcome: { retry: { reason: "asked to retry" } } };
  if (text.startsWith("sleep:")) await sleep(Number(text.slice("sleep:".length)));
  return {
    method: "Ack",
    outcome: { result: { body: Buffer.from(body).reverse(), content_type: "text/plain" } },
  };
}

/** Runs one delivery and finishes it. Unfinished deliveries come again. */
async function handle(call) {
  console.log(`delivery ${call.call_id} ${call.attempt}`);
  const lease = { call_id: call.call_id, lease_token: call.lease_token };
  let lost = false;
  // Renews the lease at half its length while the work runs.
  const leaseMs =
    Number(call.lease_expires_at.seconds) * 1000 + call.lease_expires_at.nanos / 1e6 - Date.now();
  const keeper = setInterval(
    async () => {
      const status = await ask("Extend", { leases: [lease] }).catch(() => "unknown");
      if (status !== "LEASE_STATUS_DONE" && status !== "unknown") lost = true;
    },
    Math.max(leaseMs / 2, 100),
  );
  try {
    const { method, outcome } = await work(call);
    if (lost) return console.error(`lease of ${call.call_id} lost`);
    const one = { ...lease, ...outcome };
    const status = await ask(method, method === "Ack" ? { acks: [one] } : { nacks: [one] });
    if (status === "LEASE_STATUS_DONE") console.log(`finished ${call.call_id}`);
    else console.error(`${call.call_id} was finished too late`);
  } catch (error) {
    console.error(`${call.call_id} is not finished: ${error.message}`);
  } finally {
    clearInterval(keeper);
  }
}

const inHand = new Set();
const stopping = new AbortController();
let stream;

function take(call) {
  if (stopping.signal.aborted) return;
  const handled = handle(call).finally(() => {
    inHand.delete(handled);
    closeWhenDone();
  });
  inHand.add(handled);
}

/** Ends the stream after the last delivery: an earlier end would give deliveries to another runner. */
function closeWhenDone() {
  if (stopping.signal.aborted && inHand.size === 0) stream?.cancel();
}

process.on("SIGTERM", () => {
  stopping.abort();
  closeWhenDone();
});

for (let waitMs = 100; !stopping.signal.aborted; waitMs = Math.min(waitMs * 2, 5_000)) {
  const reason = await new Promise((resolve) => {
    stream = client.Subscribe({ subscriber: "runner-node", max_in_flight: 8 }, metadata);
    stream.on("metadata", () => {
      console.log("subscribed");
      waitMs = 100;
    });
    stream.on("data", take);
    stream.on("error", (error) => resolve(error.details));
    stream.on("end", () => resolve("the stream ended"));
  });
  if (stopping.signal.aborted) break;
  console.error(`not subscribed: ${reason}`);
  await sleep(Math.random() * waitMs, undefined, { signal: stopping.signal }).catch(() => {});
}
await Promise.all(inHand);
client.close();
