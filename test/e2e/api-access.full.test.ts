import { createHash, randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { type HttpListener, listenHttp } from "../helpers/http-listener.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { signChallenge } from "../helpers/sign-in.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const WRONG_KEYS = 10_000;
const AT_ONCE = 50;
const REPLAYS = 20;
const KEY = randomBytes(32).toString("hex");

/** Requests that the API got. */
let requests = 0;
const api = startBeforeAll(
  (): Promise<HttpListener> =>
    listenHttp({
      handler(_request, response) {
        requests++;
        response.end("in");
      },
    }),
);
const parts = startBeforeAll(startPaidParts);
const postgres = startBeforeAll(startPostgres);
/** Three gateways on one database. */
const replicas = startBeforeAll(async () => {
  const storeUrl = await postgres.createDatabase();
  const sha256 = createHash("sha256").update(KEY).digest("hex");
  const gateways = await Promise.all(
    Array.from({ length: 3 }, () =>
      startPaidGateway({
        parts,
        setUp: "rpc_url",
        storeUrl,
        edit: (config) => `${config.replace("[x402]", '[x402]\ntrusted_proxies = ["127.0.0.1"]')}
[[apis]]
name = "staff"
url = "${api.url}"
[[apis.access]]
api_keys = "ada ${sha256}"
rate = 1_000_000
[[apis.access]]
sign_in = ["${accounts.stranger.address}"]
rate = 1_000_000
[[jobs]]
route = "GET /staff/{path...}"
api = "staff"
price_wei = "1000000000000000"
`,
      }),
    ),
  );
  return {
    gateways,
    stop: async () => {
      await Promise.all(gateways.map((gateway) => gateway.stop()));
    },
  };
});

let clients = 0;
/** Asks one of the gateways, as another client each time. */
function ask(headers: Readonly<Record<string, string>>, replica = 0): Promise<Response> {
  const url = replicas.gateways[replica % replicas.gateways.length]?.jobgate.x402Url ?? "";
  const client = `2001:db8::${Math.floor(++clients / 65_536).toString(16)}:${(clients % 65_536).toString(16)}`;
  return fetch(`${url}/staff/a`, { headers: { "x-forwarded-for": client, ...headers } });
}

/** Keys that nobody has: random ones, and the right one with one digit changed, left out or put in. */
function wrongKey(i: number): string {
  const at = i % KEY.length;
  const digit = KEY[at] === "0" ? "1" : "0";
  const forms = [
    randomBytes(32).toString("hex"),
    KEY.slice(0, at) + digit + KEY.slice(at + 1),
    KEY.slice(0, at) + KEY.slice(at + 1),
    KEY.slice(0, at) + digit + KEY.slice(at),
  ];
  return forms[i % forms.length] ?? "";
}

it("10,000 wrong keys do not get in, and none of them is in a log, a metric or an answer", async () => {
  requests = 0;
  const statuses = new Map<number, number>();
  const sent = Array.from({ length: WRONG_KEYS }, (_, i) => wrongKey(i));
  for (let i = 0; i < WRONG_KEYS; i += AT_ONCE) {
    await Promise.all(
      sent.slice(i, i + AT_ONCE).map(async (key, n) => {
        const answer = await ask({ authorization: `Bearer ${key}` }, n);
        expect(await answer.text()).not.toContain(key);
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      }),
    );
  }
  expect([...statuses]).toEqual([[401, WRONG_KEYS]]);
  expect(requests).toBe(0);
  expect((await ask({ authorization: `Bearer ${KEY}` })).status).toBe(200);
  for (const { jobgate } of replicas.gateways) {
    const shown = `${jobgate.logs.join("\n")}${await (await fetch(`${jobgate.operatorUrl}/metrics`)).text()}`;
    expect([KEY, ...sent].filter((key) => shown.includes(key))).toEqual([]);
  }
});

it("One client's wrong keys are limited", async () => {
  const from = { "x-forwarded-for": "2001:db8:1::1" };
  const answers = [];
  for (let i = 0; i < 30; i++)
    answers.push((await ask({ ...from, authorization: `Bearer ${wrongKey(i)}` })).status);
  expect(answers.slice(0, 20)).toEqual(Array.from({ length: 20 }, () => 401));
  expect(answers.at(-1)).toBe(429);
  // The right key is let in all the same.
  expect((await ask({ ...from, authorization: `Bearer ${KEY}` })).status).toBe(200);
});

it("A sign-in gets in once over all gateways, whichever of them made its challenge", async () => {
  for (let i = 0; i < REPLAYS; i++) {
    requests = 0;
    const header = await signChallenge(accounts.stranger, await ask({}, i));
    const answers = await Promise.all(
      Array.from({ length: 9 }, (_, n) => ask({ "sign-in-with-x": header }, n)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([
      200,
      ...Array.from({ length: 8 }, () => 409),
    ]);
    expect(requests).toBe(1);
  }
});
