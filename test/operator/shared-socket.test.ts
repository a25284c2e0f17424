import { createServer } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { OperatorService } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";

test("A tail on a socket that the webhooks share does not hold up a stop", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const jobgate = await startJobgate({
    config: sharedConfig(address),
  });
  onTestFinished(async () => void (await jobgate.stop()));
  const transport = createConnectTransport({ httpVersion: "1.1", baseUrl: `http://${address}` });
  const messages = createClient(OperatorService, transport).tail({})[Symbol.asyncIterator]();
  await messages.next();
  expect((await fetch(`http://${address}/hooks/a`, { method: "POST", body: "x" })).status).toBe(202);
  expect((await messages.next()).value?.event?.what.case).toBe("accepted");

  const ended = expect(messages.next()).rejects.toThrow("jobgate is stopping");
  const startedAt = performance.now();
  jobgate.kill("SIGTERM");
  expect(await jobgate.exited).toEqual({ code: 0, signal: null });
  expect(performance.now() - startedAt).toBeLessThan(4_000);
  await ended;
});

test("On a socket that the webhooks share, the operator's page and the webhooks are both there", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const jobgate = await startJobgate({ config: sharedConfig(address) });
  onTestFinished(async () => void (await jobgate.stop()));
  const page = await fetch(`http://${address}/`);
  expect({ status: page.status, type: page.headers.get("content-type") }).toEqual({
    status: 200,
    type: "text/html; charset=utf-8",
  });
  expect((await fetch(`http://${address}/hooks/a`, { method: "POST", body: "x" })).status).toBe(202);
  expect((await fetch(`http://${address}/webhooks/health`)).status).toBe(200);
});

function sharedConfig(address: string): string {
  return `service_id = 1
[runner]
bind_address = "127.0.0.1:0"
drain_secs = 0
[operator]
bind_address = "${address}"
[webhooks]
bind_address = "${address}"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 3
`;
}

/** A port that was free just now: sharing needs one that both listeners can name. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}
