import { decodePaymentRequiredHeader } from "@x402/core/http";
import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { openEvents } from "../helpers/server-sent-events.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

/** Paths of the requests that reached the API. */
const seen: string[] = [];
const api = startBeforeAll(() =>
  listenHttp({
    handler({ url = "" }, response) {
      seen.push(url);
      if (url === "/chat/model") response.write("data: 1\n\n");
      else response.end(`answer to ${url}`);
    },
  }),
);
const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    env: { JOBGATE_CRASH_AT: "before-forgetting" },
    // Each JobCall is left to the test.
    handle: () => new Promise(() => {}),
    edit: (config) => `${config.replace("[runner]", "[runner]\ndrain_secs = 0.2")}
[[jobs]]
job_index = 0
name = "capitals"
[[apis]]
name = "model"
url = "${api.url}"
[[jobs]]
route = "GET /chat/{kind}"
api = "model"
price_wei = "1000000000000000"
charge = "before"
stream = true
[[jobs]]
route = "GET /secret/{name}"
api = "model"
price_wei = "1000000000000000"
store_answers = false
`,
  }),
);

/** Signs a payment for a route, and returns what sends it. */
async function pay(path: string): Promise<() => Promise<Response>> {
  const asked = await fetch(gateway.jobgate.x402Url + path);
  const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + lifetime);
  const { headers } = await signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer });
  return () => fetch(gateway.jobgate.x402Url + path, { headers });
}

it("After kill -9, events resume with the progress, a streamed answer is not requested again, and an answer is kept that was not forgotten yet", async () => {
  const payment = await gateway.sign();
  const { call_id, access_token } = await gateway.send(payment, { body: "restarted" });
  const watch = (headers: Record<string, string> = {}) =>
    openEvents(`${gateway.jobgate.x402Url}/x402/calls/${call_id}/events`, {
      authorization: `Bearer ${access_token}`,
      ...headers,
    });
  const [call] = await gateway.waitForJobs("restarted");
  const lease = { callId: call?.callId ?? 0n, leaseToken: call?.leaseToken ?? "" };
  const tell = (percent: number, text: string) =>
    gateway.runner.extend({ leases: [{ ...lease, progress: { percent, text } }] });
  const before = await watch();
  expect(await before.next()).toMatchObject({ event: "running" });
  await tell(30, "thirty");
  const last = await before.next();
  expect(last?.data).toMatchObject({ progress: { percent: 30, text: "thirty" } });
  const broken = before.rest();
  broken.catch(() => undefined);

  expect(await gateway.send(payment, { body: "another" })).toMatchObject({ code: "payment_replay" });
  const refused = /"job":"1\/0".*"code":"payment_replay".*"paid request refused"/;
  const line = await until(() => gateway.jobgate.logs.find((text) => refused.test(text)));
  expect(JSON.parse(line)).toMatchObject({ jobName: "capitals" });

  const streamed = await pay("/chat/model");
  const stream = await streamed();
  const secret = await pay("/secret/crash");
  const answer = await secret();
  expect([answer.status, await answer.text()]).toEqual([200, "answer to /secret/crash"]);
  // A next request on the answer's connection shows that it was taken, and jobgate kills itself.
  await until(() =>
    secret().then(
      () => undefined,
      () => true,
    ),
  );
  await gateway.startAgain();

  await expect(broken).rejects.toThrow();
  const fresh = await watch();
  expect(await fresh.next()).toEqual(last);
  fresh.close();
  const resumed = await watch({ "last-event-id": last?.id as string });
  await tell(60, "sixty");
  expect((await resumed.next())?.data).toMatchObject({ progress: { percent: 60, text: "sixty" } });
  await gateway.runner.ack({ acks: [lease] });
  expect((await resumed.rest()).map(({ id }) => id)).toEqual(["succeeded-1"]);

  await expect(stream.text()).rejects.toThrow("terminated");
  const outcome = await streamed();
  expect([outcome.status, await outcome.json()]).toMatchObject([
    502,
    { code: "outcome_unknown", charged: true },
  ]);

  const resent = await secret();
  expect([resent.status, await resent.text()]).toEqual([200, "answer to /secret/crash"]);
  await until(async () => {
    const again = await secret();
    if (again.status === 410) return true;
    await again.arrayBuffer();
    return undefined;
  });
  expect(seen).toEqual(["/chat/model", "/secret/crash"]);
});
