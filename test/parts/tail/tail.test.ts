import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { expect, onTestFinished, test, vi } from "vitest";
import { EventSchema, OperatorService, PaymentState } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { spawnTethered } from "../../../src/node/tethered-process.ts";
import { eventLine } from "../../../src/parts/tail/tail.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { eventually } from "../../helpers/eventually.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";
import { startRunner } from "../../helpers/runner.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const CONFIG = `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
drain_secs = 0
[operator]
bind_address = "127.0.0.1:0"
token = "hunter2"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
`;

const jobgate = startBeforeAll(() => startEmbeddedJobgate({ config: CONFIG }));

/** Starts `jobgate tail` as a process; resolves once it watches. */
async function startTail() {
  const target = jobgate.operatorUrl.slice("http://".length);
  const child = spawnTethered({
    command: process.execPath,
    args: [...jobgateProgram(), "tail", "--target", target],
    env: { PATH: process.env.PATH, JOBGATE_OPERATOR_TOKEN: "hunter2" },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: Record<string, unknown>[] = [];
  const complaints: string[] = [];
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(JSON.parse(line)));
  createInterface({ input: child.stderr }).on("line", (line) => complaints.push(line));
  await eventually(() => expect(complaints).toContain("watching; end with Ctrl-C"));
  return { child, lines, complaints, exited };
}
const accept = () => fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: "x" });

test("jobgate tail prints each event as a line of JSON, and exits with 0 at SIGINT", async () => {
  const { child, lines, exited } = await startTail();
  await accept();
  const runner = await startRunner({ address: jobgate.runnerAddress });
  await eventually(() => expect(lines.some((line) => "acked" in line)).toBe(true));
  expect(lines).toMatchObject([
    { call_id: "1", accepted: { origin: "webhook", job_id: "3", service_id: "1" } },
    { call_id: "1", delivered: { attempt: 1 } },
    { call_id: "1", acked: {} },
  ]);
  await runner.stop();
  child.kill("SIGINT");
  expect(await exited).toBe(0);
});

test("jobgate tail prints only the events that its options select, and nothing for an empty message", async () => {
  const routes = (router: ConnectRouter) =>
    router.service(OperatorService, {
      async *tail() {
        for (let count = 0; count < 3; count++) yield {};
        yield { event: { callId: 9n, what: { case: "acked", value: {} } } };
        yield { event: { callId: 8n, what: { case: "dropped", value: {} } } };
        yield { event: { callId: 9n, what: { case: "dropped", value: {} } } };
        yield {};
      },
    });
  const server = createServer(connectNodeAdapter({ routes })).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, stdout, stderr } = await runHere(
    ...["tail", "--target", target, "--only", "dropped", "retried", "--call", "9"],
  );
  expect([code, stderr]).toEqual([0, "watching; end with Ctrl-C\n"]);
  expect(JSON.parse(stdout)).toMatchObject({ call_id: "9", dropped: {} });
});

test("jobgate tail exits with 0 when its reader goes, and with 1 when jobgate stops", async () => {
  const unread = await startTail();
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", "hunter2");
  onTestFinished(() => void vi.unstubAllEnvs());
  const watching = runHere("tail", "--target", jobgate.operatorUrl.slice("http://".length));
  unread.child.stdout.destroy();
  // The second write fails at the latest.
  await accept();
  await accept();
  expect(await unread.exited).toBe(0);

  jobgate.kill("SIGTERM");
  const { code, stderr } = await watching;
  expect(code).toBe(1);
  expect(stderr).toContain("jobgate is stopping");
  expect(await jobgate.exited).toEqual({ code: 0, signal: null });
});

test("A line for a terminal has time, call, kind and details in columns, with amounts in tokens", () => {
  const at = timestampFromMs(Date.UTC(2027, 0, 15, 8));
  const decided = { state: PaymentState.SETTLED, amountText: "0.64 USDC", payer: "0xabc" };
  const events = [
    create(EventSchema, { at, callId: 7n, what: { case: "paymentDecided", value: decided } }),
    create(EventSchema, {
      at,
      callId: 1234n,
      what: { case: "retried", value: { reason: "no \u001b[2J memory" } },
    }),
    create(EventSchema, {
      at,
      callId: 8n,
      what: { case: "accepted", value: { origin: "x402", serviceId: 1n, jobId: 0n } },
    }),
  ];
  const names = { job: () => "1/0 render" };
  expect(events.map((event) => eventLine(event, names))).toEqual([
    "2027-01-15T08:00:00Z  #7         payment settled     0.64 USDC from 0xabc",
    "2027-01-15T08:00:00Z  #1234      retried             no \\u{1b}[2J memory",
    "2027-01-15T08:00:00Z  #8         accepted            x402, job 1/0 render",
  ]);
});
