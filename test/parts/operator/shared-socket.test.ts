import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { expect, onTestFinished, test } from "vitest";
import { OperatorService } from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { freePort } from "../../helpers/free-port.ts";

test("An open tail on a socket shared with the webhooks does not delay a stop", async () => {
  const { jobgate, address } = await startShared();
  const transport = createConnectTransport({ httpVersion: "1.1", baseUrl: `http://${address}` });
  const messages = createClient(OperatorService, transport).tail({})[Symbol.asyncIterator]();
  await messages.next();
  expect((await fetch(`http://${address}/hooks/a`, { method: "POST", body: "x" })).status).toBe(202);
  expect((await messages.next()).value?.event?.what.case).toBe("accepted");

  const ended = expect(messages.next()).rejects.toThrow("jobgate is stopping");
  jobgate.kill("SIGTERM");
  expect(await jobgate.exited).toEqual({ code: 0, signal: null });
  await ended;
});

test("The operator's page and the webhooks share a socket", async () => {
  const { address } = await startShared();
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

/** Starts jobgate with both listeners on one port, which has to be known before the start. */
async function startShared() {
  for (;;) {
    const address = `127.0.0.1:${await freePort()}`;
    try {
      const jobgate = await startEmbeddedJobgate({ config: sharedConfig(address) });
      onTestFinished(async () => void (await jobgate.stop()));
      return { jobgate, address };
    } catch (error) {
      // Another process took the port in the meantime.
      if (!String(error).includes("EADDRINUSE")) throw error;
    }
  }
}
