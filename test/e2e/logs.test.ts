import { expect, it } from "vitest";
import { eventually } from "../helpers/eventually.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

/** Every secret holds this, so that one look finds all of them. */
const MARK = "do-not-tell";
const WEBHOOKS = `
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/closed"
job_id = 31
auth = "bearer"
secret = "${MARK}-webhook"
[[webhooks.endpoints]]
path = "/hooks/key"
job_id = 32
auth = "api-key"
secret = "${MARK}-api-key"
`;

/** Puts credentials into a URL. */
function marked(url: string): string {
  return url.replace("://", `://${MARK}-user:${MARK}-pass@`);
}

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    rpcFaults: true,
    parts,
    setUp: "rpc_url",
    logLevel: "trace",
    facilitatorTimeoutSecs: 2,
    edit: (config) =>
      config
        .replace(/(facilitator_url = ")([^"]+)/, (_, key: string, url: string) => key + marked(url))
        .replace(
          /(rpc_url = ")([^"]+)/,
          (_, key: string, url: string) => `${key}${marked(url)}/?key=${MARK}-query`,
        )
        .replace("[operator]", `[operator]\ntoken = "${MARK}-operator"`) + WEBHOOKS,
  }),
);

const lines = () =>
  gateway.jobgate.logs
    .filter((line) => !/ listening on /.test(line))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const find = (msg: string | RegExp) => lines().filter((line) => String(line.msg).match(msg));

it("Log lines about a payment name its request, call and payment; the request's line has the answer's status", async () => {
  const payment = await gateway.sign();
  const { status, call_id } = await gateway.send(payment, { body: `${MARK}-body` });
  expect(status).toBe(202);
  await eventually(() => expect(find("payment settled")).toHaveLength(1));
  const [settled] = find("payment settled");
  const { nonce, from } = payment.signed.authorization;
  expect(settled).toMatchObject({
    level: 30,
    callId: call_id,
    payment: { nonce: nonce.toLowerCase(), payer: from.toLowerCase() },
    symbol: "USDC",
    transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
  });
  const answer = {
    level: 20,
    listener: "x402",
    method: "POST",
    route: "/x402/jobs/{service}/{job}",
    status: 202,
  };
  await eventually(() => {
    const answered = find("request answered").filter(({ request }) => request === settled?.request);
    expect(answered).toMatchObject([answer]);
  });
});

it("A webhook's log line names its JobCall", async () => {
  const response = await fetch(`${gateway.jobgate.webhooksUrl}/hooks/key`, {
    method: "POST",
    headers: { "x-api-key": `${MARK}-api-key` },
    body: "an alert",
  });
  const { call_id: callId } = (await response.json()) as { call_id: number };
  await eventually(() =>
    expect(find("request answered").filter((line) => line.callId === callId)).toHaveLength(1),
  );
  const [answered] = find("request answered").filter((line) => line.callId === callId);
  expect(answered).toMatchObject({ listener: "webhooks", route: "/hooks/key", status: 202 });
});

it("A refused paid request is logged with its code; an unpaid request is not logged", async () => {
  const payment = await gateway.sign();
  expect((await gateway.send(payment, { body: "first" })).status).toBe(202);
  expect((await gateway.send(payment, { body: "another" })).code).toBe("payment_replay");
  await fetch(gateway.urlOf(), { method: "POST", body: "unpaid" });
  await eventually(() => expect(find("paid request refused")).toHaveLength(1));
  expect(find("paid request refused")).toMatchObject([
    {
      level: 30,
      request: expect.stringMatching(/^r[0-9a-f]{10}-\d+$/),
      job: "1/0",
      code: "payment_replay",
    },
  ]);
});

it("The log holds no credential, payment, signature, token or body at any level, also after failures", async () => {
  const seen: string[] = [];
  const pay = async () => {
    const payment = await gateway.sign();
    seen.push(payment.signed.signature.slice(2), Object.values(payment.headers)[0] as string);
    return payment;
  };
  const ok = await pay();
  const { receipt, access_token } = await gateway.send(ok, { body: `${MARK}-body` });
  seen.push(receipt as string, access_token as string);

  gateway.rpcProxy.add({ fault: { kind: "cut" } });
  expect((await gateway.send(await pay(), { body: `${MARK}-body` })).status).toBe(503);
  gateway.rpcProxy.clear();
  gateway.facilitatorProxy.add({ fault: { kind: "cut" } });
  expect((await gateway.send(await pay(), { body: `${MARK}-body` })).status).toBe(503);
  gateway.facilitatorProxy.clear();
  gateway.facilitatorProxy.add({ path: "/settle", times: 1, fault: { kind: "lose-answer" } });
  await gateway.send(await pay(), { body: `${MARK}-body` });
  const [call] = await gateway.waitForJobs(`${MARK}-body`, 2);
  seen.push(call?.leaseToken as string);

  const { webhooksUrl, operatorUrl } = gateway.jobgate;
  const headers = { authorization: `Bearer ${MARK}-wrong`, "x-api-key": `${MARK}-api-key` };
  for (const path of ["/hooks/closed", "/hooks/key", `/hooks/${MARK}?token=${MARK}`])
    await fetch(webhooksUrl + path, { method: "POST", headers, body: `${MARK}-body` });
  await fetch(`${operatorUrl}/metrics`, { headers: { authorization: `Bearer ${MARK}-operator` } });
  gateway.jobgate.kill("SIGHUP");
  await eventually(() => expect(find("configuration reloaded")).toHaveLength(1));

  const log = gateway.jobgate.logs.join("\n");
  expect(log).toMatch(/unknown|undecided|the chain decides/);
  expect(log).not.toContain(MARK);
  for (const secret of seen) expect(log).not.toContain(secret);
});
