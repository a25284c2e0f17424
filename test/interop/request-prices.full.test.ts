import { beforeAll, expect, it } from "vitest";
import { inDollars, startPaidGateway } from "../e2e/paid-gateway.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { newAccount, type TestAccount } from "../helpers/accounts.ts";
import { freePort } from "../helpers/free-port.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type ApiRequest, CLIENTS, preparePythonClients, sendBy } from "./api-clients.ts";

/** A job with a price by what is asked, and a request for it. */
interface Row extends ApiRequest {
  readonly route: string;
  readonly price: string;
  readonly query?: string;
  /** Token units. */
  readonly amount: number;
}

const rowsAt = (pricer: string): readonly Row[] => [
  {
    ...{ route: "POST /sizes", method: "POST", path: "/sizes", json: { text: "x".repeat(2_100) } },
    price: '{ base = "$0.002", per = "body:KiB", each = "$0.001", min = "$0.001", max = "$1" }',
    amount: 5_000,
  },
  {
    ...{ route: "POST /numbers", method: "POST", path: "/numbers", json: { n: 7 } },
    price: '{ per = "json:/n", each = "$0.0005", min = "$0.001", max = "$1" }',
    amount: 3_500,
  },
  {
    ...{ route: "POST /texts", method: "POST", path: "/texts", json: { text: "🙂".repeat(11) } },
    price:
      '{ per = "json:/text:characters", tiers = [{ up_to = 10, price = "$0.01" }, { price = "$0.02" }] }',
    amount: 20_000,
  },
  {
    ...{ route: "GET /weather", method: "GET", path: "/weather?units=kelvin" },
    query: 'units = { type = "string" }',
    price: '{ of = "query:units", cases = { kelvin = "$0.03" }, other = "$0.01" }',
    amount: 30_000,
  },
  {
    ...{ route: "GET /models/{model}", method: "GET", path: "/models/large" },
    price: '{ of = "path:model", cases = { small = "$0.01", large = "$0.04" } }',
    amount: 40_000,
  },
  {
    ...{ route: "GET /tiers", method: "GET", path: "/tiers", headers: { "x-tier": "gold" } },
    price: '{ of = "header:x-tier", cases = { gold = "$0.05" }, other = "$0.01" }',
    amount: 50_000,
  },
  {
    ...{ route: "POST /drawings", method: "POST", path: "/drawings", json: { prompt: "a cat" } },
    price: `{ url = "${pricer}", max = "$1" }`,
    amount: 60_000,
  },
];

beforeAll(preparePythonClients);
const payers = new Map(CLIENTS.map((client) => [client, newAccount()]));
const parts = startBeforeAll(() => startPaidParts({ payers: [...payers.values()] }));
const api = startBeforeAll(() =>
  listenHttp({
    handler: (request, response) => {
      response.setHeader("content-type", "text/plain");
      request.resume().once("end", () => response.end(`${request.method} ${request.url}`));
    },
  }),
);
const pricer = startBeforeAll(() =>
  listenHttp({
    handler: (request, response) => {
      request.resume().once("end", () => response.end('{"price":"$0.06","description":"a cat"}'));
    },
  }),
);
const gateway = startBeforeAll(async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const jobs = rowsAt(pricer.url).map(
    ({ route, price, query, json }) => `[[jobs]]
route = "${route}"
api = "app"
mode = "public_paid"
idempotent = true
price = ${price}
${json === undefined ? "" : 'input = { content_type = "application/json" }'}
${query === undefined ? "" : `input = { query = { ${query} } }`}
`,
  );
  return startPaidGateway({
    ...{ parts, setUp: "rpc_url" },
    edit: (config) =>
      inDollars(config)
        .replace('[x402]\nbind_address = "127.0.0.1:0"', `[x402]\nbind_address = "${address}"`)
        .replace("http://127.0.0.1:8402", `http://${address}`)
        .replace(/\[job_pricing[\s\S]*/, `[[apis]]\nname = "app"\nurl = "${api.url}"\n${jobs.join("")}`),
  });
});

it.concurrent.each(CLIENTS)("%s buys each request at the price of what it asks", async (client) => {
  const account = payers.get(client) as TestAccount;
  const before = await parts.usdc.balanceOf(account.address);
  const rows = rowsAt(pricer.url);
  const answers = await sendBy(client, { url: gateway.jobgate.x402Url, account }, rows);
  const payments = new Map((await gateway.journal.payments()).map((payment) => [payment.callId, payment]));
  const seen = answers.map(({ status, headers, body }) => {
    const { state, amount } = payments.get(Number(headers["x-call-id"])) ?? {};
    return { status, state, amount, body: body.toString() };
  });
  expect(seen).toEqual(
    rows.map(({ method, path, amount }) => ({
      ...{ status: 200, state: "settled", amount: String(amount), body: `${method} ${path}` },
    })),
  );
  const all = rows.reduce((sum, { amount }) => sum + amount, 0);
  expect(before - (await parts.usdc.balanceOf(account.address))).toBe(BigInt(all));
});
