import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { expect, onTestFinished, test, vi } from "vitest";
import { OperatorService } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { spawnTethered } from "../helpers/tethered-process.ts";

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

const jobgate = startBeforeAll(() => startJobgate({ config: CONFIG }));

/** Starts `jobgate tail` as a process; resolves once it watches. */
async function startTail(target = jobgate.operatorUrl.slice("http://".length)) {
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
  await vi.waitFor(() => expect(complaints).toContain("watching; end with Ctrl-C"), { timeout: 10_000 });
  return { child, lines, complaints, exited };
}
const accept = () => fetch(`${jobgate.webhooksUrl}/hooks/a`, { method: "POST", body: "x" });

test("jobgate tail prints each event as a line of JSON, and exits with 0 at SIGINT", async () => {
  const { child, lines, exited } = await startTail();
  await accept();
  const runner = await startRunner({ address: jobgate.runnerAddress });
  await vi.waitFor(() => expect(lines.some((line) => "acked" in line)).toBe(true), { timeout: 10_000 });
  expect(lines).toMatchObject([
    { call_id: "1", accepted: { origin: "webhook", job_id: "3", service_id: "1" } },
    { call_id: "1", delivered: { attempt: 1 } },
    { call_id: "1", acked: {} },
  ]);
  await runner.stop();
  child.kill("SIGINT");
  expect(await exited).toBe(0);
});

test("jobgate tail prints nothing for an empty message", async () => {
  const routes = (router: ConnectRouter) =>
    router.service(OperatorService, {
      async *tail() {
        for (let count = 0; count < 3; count++) yield {};
        yield { event: { callId: 9n, what: { case: "dropped", value: {} } } };
        yield {};
      },
    });
  const server = createServer(connectNodeAdapter({ routes })).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { lines, complaints, exited } = await startTail(
    `127.0.0.1:${(server.address() as AddressInfo).port}`,
  );
  expect(await exited).toBe(0);
  await vi.waitFor(() => expect(lines).toMatchObject([{ call_id: "9", dropped: {} }]), { timeout: 10_000 });
  expect(complaints).toEqual(["watching; end with Ctrl-C"]);
});

test("jobgate tail exits with 0 when its reader goes, and with 1 when jobgate stops", async () => {
  const [unread, watching] = await Promise.all([startTail(), startTail()]);
  unread.child.stdout.destroy();
  // The second write fails at the latest.
  await accept();
  await accept();
  expect(await unread.exited).toBe(0);

  jobgate.kill("SIGTERM");
  expect(await watching.exited).toBe(1);
  expect(watching.complaints.at(-1)).toContain("jobgate is stopping");
  expect(await jobgate.exited).toEqual({ code: 0, signal: null });
});
