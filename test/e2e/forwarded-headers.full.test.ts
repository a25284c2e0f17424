import { expect, test } from "vitest";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { httpMetadata, type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const postgres: Postgres = startBeforeAll(startPostgres);
const gateway: PaidGateway = startBeforeAll(async () =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    asProcess: true,
    storeUrl: await postgres.createDatabase(),
    edit: (config) => `${config.replace("[x402]", '[x402]\nforward_headers = ["X-Request-Id"]')}
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
forward_headers = ["X-Request-Id"]
`,
  }),
);

test("A job in Postgres keeps its headers when jobgate is killed during its payment", async () => {
  const body = "killed";
  const payment = await gateway.sign();
  const headers = { "Content-Type": "text/csv", "X-Request-Id": "Zo\xeb" };
  const killed = gateway.duringSettle(async () => gateway.jobgate.kill("SIGKILL"));
  await expect(gateway.send(payment, { body, headers })).rejects.toThrow();
  await killed;
  await gateway.startAgain({ asProcess: true });
  const others = { "Content-Type": "text/html", "X-Request-Id": "second" };
  expect(await gateway.sendUntilDecided(payment, { body, headers: others })).toMatchObject(ACCEPTED);
  const [job] = await gateway.waitForJobs(body);
  expect(httpMetadata(job)).toEqual({ "X-HTTP-CONTENT-TYPE": "text/csv", "X-HTTP-X-REQUEST-ID": "Zoë" });
});

test("A webhook in Postgres keeps its headers when jobgate is killed after its 202", async () => {
  const body = "webhook";
  await gateway.stopRunner();
  const answer = await fetch(`${gateway.jobgate.webhooksUrl}/hooks/a`, {
    method: "POST",
    headers: { "Content-Type": "text/csv", "X-Request-Id": "r1" },
    body,
  });
  expect(answer.status).toBe(202);
  await gateway.restart({ signal: "SIGKILL", asProcess: true });
  const [job] = await gateway.waitForJobs(body);
  expect(httpMetadata(job)).toEqual({ "X-HTTP-CONTENT-TYPE": "text/csv", "X-HTTP-X-REQUEST-ID": "r1" });
});
