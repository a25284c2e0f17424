import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { TLSSocket } from "node:tls";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { beforeEach, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { parseExposition } from "../helpers/exposition.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, startPaidParts } from "./paid-parts.ts";

const certificates = startBeforeAll(() => makeCertificates());
const pem = (name: string) => readFile(certificates.file(name));

/** Names of the client certificates that the API was shown. */
const shown: string[] = [];

/** An API that answers only those who show a certificate of its authority. */
const api = startBeforeAll(async () => {
  const [ca, cert, key] = await Promise.all(["authority.pem", "server.pem", "server.key"].map(pem));
  const server = createServer({ ca, cert, key, requestCert: true }, ({ socket }, response) => {
    if (socket instanceof TLSSocket) shown.push(String(socket.getPeerCertificate().subject?.CN));
    response.writeHead(200, { "content-type": "text/plain" }).end("over TLS");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://localhost:${port}`,
    stop: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
});

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() => {
  const client = (name: string) =>
    `cert = "${certificates.file(`${name}.pem`)}", key = "${certificates.file(`${name}.key`)}"`;
  const ca = (name: string) => `ca = "${certificates.file(`${name}.pem`)}"`;
  const apis = {
    good: `${ca("authority")}, ${client("runner")}`,
    "wrong-authority": `${ca("stranger")}, ${client("runner")}`,
    "no-certificate": ca("authority"),
    "wrong-certificate": `${ca("authority")}, ${client("impostor")}`,
  };
  const tables = Object.entries(apis).map(
    ([name, tls]) => `
[[apis]]
name = "${name}"
url = "${api.url}"
tls = { ${tls} }
free = ["GET /free/${name}"]
[[jobs]]
route = "GET /${name}/{item}"
api = "${name}"
price_wei = "1000000000000000"
`,
  );
  const edit = (config: string) => `${config}\n${tables.join("")}`;
  return startPaidGateway({ parts, setUp: "rpc_url", edit });
});

async function buy(path: string): Promise<Response> {
  const url = gateway.jobgate.x402Url + path;
  const offer = decodePaymentRequiredHeader((await fetch(url)).headers.get("payment-required") ?? "");
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + lifetime);
  const { headers } = await signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer });
  return fetch(url, { headers });
}

const received = () => parts.usdc.balanceOf(accounts.payTo.address);

beforeEach(() => {
  shown.length = 0;
});

describe("An API over TLS", () => {
  it("is asked with the client certificate of its entry, if an authority of its entry vouches for it", async () => {
    const before = await received();
    const answer = await buy("/good/a");
    expect([answer.status, await answer.text()]).toEqual([200, "over TLS"]);
    expect(await received()).toBe(before + AMOUNT);
    const free = await fetch(`${gateway.jobgate.x402Url}/free/good`);
    expect([free.status, await free.text()]).toEqual([200, "over TLS"]);
    expect(shown).toEqual(["runner", "runner"]);
  });

  it("gets nothing if another authority made its certificate, and the log says why", async () => {
    const before = await received();
    const answer = await buy("/wrong-authority/a");
    expect([answer.status, answer.headers.get("x-charged")]).toEqual([502, "false"]);
    expect(await answer.json()).toMatchObject({ code: "api_unreachable", charged: false });
    const free = await fetch(`${gateway.jobgate.x402Url}/free/wrong-authority`);
    expect([free.status, await free.json()]).toMatchObject([503, { code: "api_unreachable" }]);
    expect(shown).toEqual([]);
    expect(await received()).toBe(before);
    const log = gateway.jobgate.logs.filter((line) => line.includes('"api":"wrong-authority"'));
    expect(log.join("\n")).toMatch(
      /"reason":"[A-Z_]*(SIGNATURE|ISSUER|CERT)[A-Z_]*".*a call of an API failed/,
    );
  });

  it.each(["no-certificate", "wrong-certificate"])(
    "that refuses jobgate, with %s, costs nothing",
    async (name) => {
      const before = await received();
      const answer = await buy(`/${name}/a`);
      expect([answer.status, answer.headers.get("x-charged")]).toEqual([502, "false"]);
      expect(shown).toEqual([]);
      expect(await received()).toBe(before);
    },
  );
});

it("Free requests are counted by their API and their answer", async () => {
  const counted = async () => {
    const text = await (await fetch(`${gateway.jobgate.operatorUrl}/metrics`)).text();
    const family = parseExposition(text).find(({ name }) => name === "jobgate_api_free_requests_total");
    return Object.fromEntries(
      (family?.samples ?? []).map(({ labels, value }) => [`${labels.api} ${labels.code}`, value]),
    );
  };
  const before = await counted();
  for (const name of ["good", "good", "wrong-authority"])
    await (await fetch(`${gateway.jobgate.x402Url}/free/${name}`)).arrayBuffer();
  const after = await counted();
  const more = Object.entries(after).map(([what, n]) => [what, n - (before[what] ?? 0)]);
  expect(Object.fromEntries(more)).toEqual({ "good 200": 2, "wrong-authority api_unreachable": 1 });
});
