import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { request, type ServerResponse } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired } from "@x402/core/types";
import { beforeEach, describe, expect, it } from "vitest";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { accounts } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { sendRpc } from "../helpers/mcp.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

/** An answer that is stored in chunks, and does not fit into the buffers of a connection. */
const BIG = randomBytes(9_000_000);

/** An answer that MCP does not hold itself, but links to. */
const LINKED = BIG.subarray(0, 1_200_000);

/** Time after which a buyer leaves who waits for nothing. */
const LEAVES_MS = 300;
/** Time in which an answer that is to be forgotten would be. */
const FORGETTING_MS = 500;

/** Paths of the requests that reached the API. */
const seen: string[] = [];
let answerAfterMs = 0;

const api = startBeforeAll(() =>
  listenHttp({
    handler: ({ url = "" }, response) => {
      seen.push(url);
      setTimeout(() => answer(url, response), answerAfterMs);
    },
  }),
);

function answer(url: string, response: ServerResponse): unknown {
  if (url === "/kept/big" || url === "/secret/big") return response.end(BIG);
  if (url === "/secret/linked") return response.end(LINKED);
  const status = url.endsWith("/none") ? 404 : 200;
  const headers = { "content-type": "text/plain", "x-note": "of the answer" };
  return response.writeHead(status, headers).end(`answer to ${url}`);
}

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => `${config}
[[apis]]
name = "notes"
url = "${api.url}"
[[jobs]]
route = "GET /secret/{name}"
api = "notes"
price_wei = "1000000000000000"
store_answers = false
[[jobs]]
route = "GET /kept/{name}"
api = "notes"
price_wei = "1000000000000000"
`,
  }),
);

async function sign(offer: PaymentRequired) {
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + lifetime);
  return signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer });
}

/** Signs a payment for a path, and returns what sends it. */
async function paid(path: string) {
  const asked = await fetch(gateway.jobgate.x402Url + path);
  const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  const { headers } = await sign(offer);
  return {
    offer,
    headers,
    send: (more: Record<string, string> = {}) =>
      fetch(gateway.jobgate.x402Url + path, { headers: { ...headers, ...more } }),
  };
}

/** Sends a payment until its answer is forgotten, which takes a moment once it was sent. */
async function sendUntilForgotten(send: () => Promise<Response>): Promise<Response> {
  return until(async () => {
    const answer = await send();
    if (answer.status === 410) return answer;
    await answer.arrayBuffer();
    return undefined;
  });
}

/** Waits until the store has an answer. */
async function answered(): Promise<void> {
  const database = openDriver(join(gateway.jobgate.folder, "jobgate.db"));
  const count = database.prepare<{ n: number }>("SELECT count(*) AS n FROM job_calls");
  await until(async () => (count.get([])?.n === 0 ? true : undefined));
  database.close();
}

/** Reads all that the store has of answers. */
function stored() {
  const database = openDriver(join(gateway.jobgate.folder, "jobgate.db"));
  const chunks = database.prepare<{ n: number }>("SELECT count(*) AS n FROM result_chunks");
  const results = database.prepare<object>(
    "SELECT body, headers, content_type, stored_bytes FROM results ORDER BY call_id DESC LIMIT 1",
  );
  const found = { chunks: chunks.get([])?.n, ...results.get([]) };
  database.close();
  return found;
}
/** Waits until the database and its log have none of some bytes. */
async function gone(...bytes: readonly Buffer[]): Promise<void> {
  const files = ["jobgate.db", "jobgate.db-wal"].map((name) => join(gateway.jobgate.folder, name));
  await until(() => {
    const all = files.filter((file) => existsSync(file)).map((file) => readFileSync(file));
    return bytes.some((part) => all.some((file) => file.includes(part))) ? undefined : true;
  });
}
const NOTHING = { chunks: 0, body: null, headers: null, content_type: "", stored_bytes: null };

/** Headers of `fetch` that a payment is bound to. */
const BY_FETCH = { accept: "*/*", "accept-language": "*" };

/** Sends a payment, and leaves once enough bytes of the answer have arrived. */
function leaveEarly(path: string, headers: Readonly<Record<string, string>>, enough: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = request(
      gateway.jobgate.x402Url + path,
      { headers: { ...BY_FETCH, ...headers } },
      (answer) => {
        let size = 0;
        answer.on("data", (bytes: Uint8Array) => {
          size += bytes.length;
          if (size < enough) return;
          sent.destroy();
          resolve();
        });
      },
    );
    sent.on("error", reject).end();
    if (enough === 0) setTimeout(() => resolve(void sent.destroy()), LEAVES_MS);
    sent.on("close", () => resolve());
  });
}

beforeEach(() => {
  seen.length = 0;
  answerAfterMs = 0;
});

describe("An answer of a job with store_answers = false", () => {
  it("is announced, sent once, and then forgotten: the same payment gets 410 and calls nothing", async () => {
    const { offer, send } = await paid("/secret/a");
    expect(offer.resource).toMatchObject({ storeAnswers: false });
    const { jobs } = (await (await fetch(`${gateway.jobgate.x402Url}/x402/jobs`)).json()) as {
      jobs: { route?: string; store_answers?: boolean }[];
    };
    const told = new Map(jobs.map(({ route, store_answers }) => [route, store_answers]));
    expect([told.get("GET /secret/{name}"), told.get("GET /kept/{name}")]).toEqual([false, undefined]);

    const answer = await send();
    expect([answer.status, await answer.text()]).toEqual([200, "answer to /secret/a"]);
    const again = await sendUntilForgotten(send);
    expect(again.headers.get("payment-response")).toBe(answer.headers.get("payment-response"));
    expect(await again.json()).toMatchObject({ code: "result_not_kept", charged: true, retryable: false });
    expect(stored()).toMatchObject(NOTHING);
    const path = new URL(answer.headers.get("link")?.match(/<(.*)>/)?.[1] ?? "", gateway.jobgate.x402Url);
    const ask = async (tail: string) => {
      const url = `${gateway.jobgate.x402Url}${path.pathname}${tail}`;
      const headers = { authorization: `Bearer ${answer.headers.get("x-access-token")}` };
      return (await fetch(url, { headers })).json();
    };
    expect([await ask(""), await ask("/result")]).toMatchObject([
      { state: "succeeded" },
      { code: "result_not_kept" },
    ]);
    expect(seen).toEqual(["/secret/a"]);
    await gone(Buffer.from("answer to /secret/a"), Buffer.from("of the answer"));
  });

  it("is forgotten also where it was not charged", async () => {
    const none = await paid("/secret/none");
    expect((await none.send()).status).toBe(404);
    expect(await (await sendUntilForgotten(none.send)).json()).toMatchObject({
      code: "result_not_kept",
      charged: false,
    });
    expect(stored()).toMatchObject(NOTHING);
    expect(seen).toEqual(["/secret/none"]);
  });

  it("stays while it was not sent, because its buyer left before it, or in the middle of it, or asked for a part", async () => {
    answerAfterMs = 1_000;
    const early = await paid("/secret/early");
    await leaveEarly("/secret/early", early.headers, 0);
    await answered();
    await sleep(FORGETTING_MS);
    const kept = await early.send();
    expect([kept.status, await kept.text()]).toEqual([200, "answer to /secret/early"]);

    answerAfterMs = 0;
    const big = await paid("/secret/big");
    await leaveEarly("/secret/big", big.headers, 100_000);
    await sleep(FORGETTING_MS);
    const part = await big.send({ range: "bytes=0-9" });
    expect([part.status, (await part.arrayBuffer()).byteLength]).toEqual([206, 10]);
    await sleep(FORGETTING_MS);
    expect(Buffer.from(await (await big.send()).arrayBuffer()).equals(BIG)).toBe(true);
    await sendUntilForgotten(() => big.send({ range: "bytes=0-9" }));
    expect(stored()).toMatchObject(NOTHING);
    await gone(...[0, 4_500_000, 8_999_970].map((at) => BIG.subarray(at, at + 30)));
    expect(seen).toEqual(["/secret/early", "/secret/big"]);
  });

  it("is forgotten by a tool of MCP too, whose large answer stays until its link was read", async () => {
    const url = `${gateway.jobgate.x402Url}/mcp`;
    const buyTool = async (name: string) => {
      const { jobs } = (await (await fetch(`${gateway.jobgate.x402Url}/x402/jobs`)).json()) as {
        jobs: { route?: string; job_index: number }[];
      };
      const tool = `job-1-${jobs.find(({ route }) => route === "GET /secret/{name}")?.job_index}`;
      const call = async (_meta: object) => {
        const args = { name: tool, arguments: { path: { name } }, _meta };
        return (await sendRpc(url, "tools/call", args)).result as Record<string, never> | undefined;
      };
      const payment = await sign((await call({}))?.structuredContent as unknown as PaymentRequired);
      return () => call({ "x402/payment": payment.payload });
    };
    const small = await buyTool("tool");
    expect(await small()).toMatchObject({ content: [{ text: "answer to /secret/tool" }] });
    const again = await until(async () => {
      const told = await small();
      return told?.isError === true ? told : undefined;
    });
    expect(again).toMatchObject({ structuredContent: { code: "result_not_kept", charged: true } });

    const large = await buyTool("linked");
    const linked = (await large()) as unknown as {
      content: { uri: string }[];
      _meta: { "jobgate/call": { access_token: string } };
    };
    await sleep(FORGETTING_MS);
    expect(await large()).toMatchObject({ content: [{ type: "resource_link" }] });
    const link = new URL(String(linked.content[0]?.uri), gateway.jobgate.x402Url).pathname;
    const headers = { authorization: `Bearer ${linked._meta["jobgate/call"].access_token}` };
    const read = () => fetch(gateway.jobgate.x402Url + link, { headers });
    expect(Buffer.from(await (await read()).arrayBuffer()).equals(LINKED)).toBe(true);
    await sendUntilForgotten(read);
    expect(await large()).toMatchObject({ structuredContent: { code: "result_not_kept" } });
    expect(seen).toEqual(["/secret/tool", "/secret/linked"]);
  });

  it("is kept as ever at another job", async () => {
    const { send } = await paid("/kept/a");
    await send();
    await sleep(FORGETTING_MS);
    expect(await (await send()).text()).toBe("answer to /kept/a");
  });
});
