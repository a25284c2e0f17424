import { createHash } from "node:crypto";
import { EventEmitter } from "node:events";
import { connect } from "node:net";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { wrapFetchWithSIWx } from "@x402/extensions/sign-in-with-x";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { signV2Payment } from "../helpers/clients.ts";
import { eventually } from "../helpers/eventually.ts";
import { freePort } from "../helpers/free-port.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { signChallenge } from "../helpers/sign-in.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

const KEY = "key-of-ada-which-nobody-else-knows";
const SLOW_KEY = "key-of-bob-which-is-limited";
const WRONG_KEY = "wrong-key-of-somebody";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** Requests that the API got. */
const seen: { method: string; url: string; headers: Readonly<Record<string, unknown>>; body: string }[] = [];
let status = 200;
/** Lets the answers that have begun end. */
const goOn = new EventEmitter();
/** More than all buffers between the API and a client that takes nothing. */
const LARGE = Buffer.alloc(50_000_000, "x");

const api = startBeforeAll(() =>
  listenHttp({
    handler(request, response) {
      const { method = "", url = "", headers } = request;
      let body = "";
      request.on("data", (bytes: Buffer) => {
        body += bytes.toString();
      });
      request.on("end", () => {
        seen.push({ method, url, headers, body });
        if (url.endsWith("/broken")) return response.destroy();
        if (url.endsWith("/large")) return response.end(LARGE);
        if (url.endsWith("/late")) {
          response.write("begun, ");
          return goOn.once("go", () => response.end("ended"));
        }
        return response.writeHead(status, { "content-type": "text/plain" }).end(`answer ${seen.length}`);
      });
    },
  }),
);
const parts = startBeforeAll(startPaidParts);
const account = startBeforeAll(async () => {
  const made = await refundAccount(parts);
  await parts.usdc.mint(made.address, 100_000_000n);
  return { ...made, stop: () => Promise.resolve() };
});
const gateway = startBeforeAll(async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const nobody = await freePort();
  return startPaidGateway({
    parts,
    setUp: "rpc_url",
    // The official client signs in only at the address that the challenge names.
    edit: (config) => `${account
      .edit(config)
      .replace(
        /bind_address = "127.0.0.1:0"\npublic_url = ".*"/,
        `bind_address = "${address}"\npublic_url = "http://${address}"\ntrusted_proxies = ["127.0.0.1"]`,
      )}
[[apis]]
name = "staff"
url = "${api.url}"
headers = { X-Secret = "of the API" }
forward_headers = "*"
[[apis.access]]
api_keys = "ada ${sha256(KEY)}"
rate = 1_000
[[apis.access]]
api_keys = "bob ${sha256(SLOW_KEY)}"
rate = 1
[[apis.access]]
sign_in = ["${accounts.stranger.address}"]
[[jobs]]
route = "GET|POST /staff/{path...}"
api = "staff"
price_wei = "1000000000000000"
[[apis]]
name = "narrow"
url = "${api.url}"
concurrency = 2
free = ["GET /free/{path...}"]
[[apis.access]]
api_keys = "ada ${sha256(KEY)}"
[[jobs]]
route = "GET /narrow/{path...}"
api = "narrow"
price_wei = "1000000000000000"
[[apis]]
name = "impatient"
url = "${api.url}"
concurrency = 2
timeout_secs = 1
[[apis.access]]
api_keys = "ada ${sha256(KEY)}"
[[jobs]]
route = "GET /impatient/{path...}"
api = "impatient"
price_wei = "1000000000000000"
[[apis]]
name = "gone"
url = "http://127.0.0.1:${nobody}"
[[apis.access]]
api_keys = "ada ${sha256(KEY)}"
[[jobs]]
route = "GET /gone/{path...}"
api = "gone"
price_wei = "1000000000000000"
[[apis]]
name = "again"
url = "${api.url}"
[[apis.access]]
paid_within_secs = 600
[[jobs]]
route = "GET|POST /again/{path...}"
api = "again"
price_wei = "1000000000000000"
[[jobs]]
route = "GET /kept/{path...}"
api = "again"
price_wei = "1000000000000000"
charge = "before"
on_failure = "refund"
[[jobs]]
route = "GET /off/{path...}"
api = "staff"
price_wei = "1000000000000000"
mode = "disabled"
`,
  });
});
const received = () => parts.usdc.balanceOf(accounts.payTo.address);
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

let clients = 0;
/** Sends a request of another client each time, since a client may send few wrong credentials. */
function ask(target: string, init: RequestInit = {}): Promise<Response> {
  const headers = { "x-forwarded-for": `2001:db8::${(++clients).toString(16)}`, ...init.headers };
  return fetch(`${gateway.jobgate.x402Url}${target}`, { ...init, headers });
}

async function codeOf(response: Response): Promise<unknown> {
  return ((await response.json()) as { readonly code?: unknown }).code;
}

const signIn = async (account: TestAccount, target: string, init: RequestInit = {}) =>
  signChallenge(account, await ask(target, init));

const withSignIn = (target: string, header: string, init: RequestInit = {}) =>
  ask(target, { ...init, headers: { "sign-in-with-x": header } });

async function buy(target: string, init: RequestInit = {}) {
  const asked = await ask(target, init);
  const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  const lifetime = offer.accepts[0]?.maxTimeoutSeconds ?? Number.NaN;
  const validBefore = String(Math.max(await parts.chainTimeSecs(), Math.floor(Date.now() / 1000)) + lifetime);
  const { headers } = await signV2Payment({ account: accounts.payer, authorization: { validBefore }, offer });
  const send = (more: Readonly<Record<string, string>> = {}) =>
    ask(target, { ...init, headers: { ...headers, ...more } });
  return { answer: await send(), send };
}

beforeEach(() => {
  seen.length = 0;
  status = 200;
});

describe("A key of an API", () => {
  it("lets any request in, which the API gets with the seller's headers and without the key", async () => {
    const before = await received();
    const answer = await ask("/staff/a?b=%63", {
      method: "POST",
      body: "the body",
      headers: { ...bearer(KEY), "x-own": "kept" },
    });
    expect([answer.status, await answer.text()]).toEqual([200, "answer 1"]);
    expect(answer.headers.get("cache-control")).toBe("private, no-store");
    expect(seen).toMatchObject([
      {
        method: "POST",
        url: "/staff/a?b=%63",
        body: "the body",
        headers: {
          "content-length": "8",
          traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/),
          "x-secret": "of the API",
          "x-own": "kept",
          "x-forwarded-for": expect.stringMatching(/^2001:db8::/),
        },
      },
    ]);
    expect(JSON.stringify(seen)).not.toContain(KEY);
    expect((await ask("/staff/a", { method: "HEAD", headers: bearer(KEY) })).status).toBe(200);
    expect(seen[1]?.method).toBe("HEAD");
    expect(await received()).toBe(before);
    expect(gateway.delivered).toHaveLength(0);
  });

  it("passes the API's own errors on, but not requests for credentials", async () => {
    status = 404;
    const missing = await ask("/staff/none", { headers: bearer(KEY) });
    expect([missing.status, await missing.text()]).toEqual([404, "answer 1"]);
    status = 401;
    const refused = await ask("/staff/none", { headers: bearer(KEY) });
    expect([refused.status, await codeOf(refused)]).toEqual([502, "api_refused"]);
  });

  it("does not learn whether the API got its request if the connection to it breaks", async () => {
    const broken = await ask("/staff/broken", { method: "POST", body: "once", headers: bearer(KEY) });
    expect([broken.status, await broken.json()]).toMatchObject([
      502,
      { code: "outcome_unknown", retryable: false },
    ]);
    expect(seen).toHaveLength(1);
    const gone = await ask("/gone/a", { headers: bearer(KEY) });
    expect([gone.status, await gone.json()]).toMatchObject([
      503,
      { code: "api_unreachable", retryable: true },
    ]);
  });

  it("gets the whole of an answer over which the configuration is read anew", async () => {
    const answer = await ask("/staff/late", { headers: bearer(KEY) });
    const reloads = () =>
      gateway.jobgate.logs.filter((line) => line.includes("configuration reloaded")).length;
    const before = reloads();
    gateway.jobgate.kill("SIGHUP");
    await eventually(() => expect(reloads()).toBeGreaterThan(before));
    goOn.emit("go");
    expect(await answer.text()).toBe("begun, ended");
  });

  it("shares half of the API's concurrency with free requests", async () => {
    const held = await ask("/narrow/late", { headers: bearer(KEY) });
    const busy = await Promise.all([ask("/narrow/a", { headers: bearer(KEY) }), ask("/free/a")]);
    for (const refused of busy) expect([refused.status, await codeOf(refused)]).toEqual([503, "api_busy"]);
    goOn.emit("go");
    expect(await held.text()).toBe("begun, ended");
    await eventually(async () => expect((await ask("/free/a")).status).toBe(200));
  });

  it("is not kept out by a client that takes nothing of its answer", async () => {
    const { port } = new URL(gateway.jobgate.x402Url);
    const stalled = connect(Number(port), "127.0.0.1");
    onTestFinished(() => void stalled.destroy());
    stalled.write(`GET /impatient/large HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    stalled.pause();
    await eventually(() => expect(seen).toHaveLength(1));
    await eventually(async () =>
      expect((await ask("/impatient/a", { headers: bearer(KEY) })).status).toBe(200),
    );
  });

  it("is limited by its rate", async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => ask("/staff/fast", { headers: bearer(SLOW_KEY) })),
    );
    const limited = answers.filter((answer) => answer.status === 429);
    expect(limited[0]?.headers.get("retry-after")).toBe("1");
    expect(seen.length).toBe(20 - limited.length);
  });

  it("lets no client in that has another key, and such a request buys nothing", async () => {
    const { send, answer } = await buy("/staff/paid");
    expect(answer.status).toBe(200);
    seen.length = 0;
    const before = await received();
    for (const key of ["", "wrong", `${KEY}x`, KEY.slice(1), sha256(KEY)]) {
      const refused = await ask("/staff/a", { headers: bearer(key) });
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      expect(await refused.json()).toMatchObject({ code: "unauthorized", charged: false });
    }
    const asked = await ask("/staff/b");
    const offer = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
    const { headers } = await signV2Payment({ account: accounts.payer, offer });
    const both = await ask("/staff/b", { headers: { ...headers, ...bearer("wrong") } });
    expect([both.status, await codeOf(both)]).toEqual([401, "unauthorized"]);
    expect(seen).toEqual([]);
    expect(await received()).toBe(before);
    // What was bought before is answered, whatever else the request carries.
    expect((await send(bearer("wrong"))).status).toBe(200);
    expect(seen).toEqual([]);
  });

  it("opens no job that is not for sale, and no other API", async () => {
    const off = await ask("/off/a", { headers: bearer(KEY) });
    expect([off.status, await codeOf(off)]).toEqual([403, "x402_disabled"]);
    expect((await ask("/again/a", { headers: bearer(KEY) })).status).toBe(402);
    expect(seen).toEqual([]);
  });

  it("is counted by its name, and is in no log", async () => {
    await ask("/staff/counted", { headers: bearer(KEY) });
    await ask("/staff/counted", { headers: bearer(WRONG_KEY) });
    const metrics = await (await fetch(`${gateway.jobgate.operatorUrl}/metrics`)).text();
    expect(metrics).toMatch(
      /jobgate_api_access_requests_total\{api="staff",service_id="1",job_id="\d+",by="key",name="ada",code="200"\} \d+/,
    );
    for (const secret of [KEY, sha256(KEY), WRONG_KEY]) {
      expect(metrics).not.toContain(secret);
      expect(gateway.jobgate.logs.join("\n")).not.toContain(secret);
    }
  });
});

describe("An account that signs in", () => {
  it("is let in by the official client, once for each signature", async () => {
    const signed = wrapFetchWithSIWx(fetch, accounts.stranger);
    const answer = await signed(`${gateway.jobgate.x402Url}/staff/hello`);
    expect([answer.status, await answer.text()]).toEqual([200, "answer 1"]);
    const header = await signIn(accounts.stranger, "/staff/hello");
    expect((await withSignIn("/staff/hello", header)).status).toBe(200);
    const replayed = await withSignIn("/staff/hello", header);
    expect([replayed.status, await codeOf(replayed)]).toEqual([409, "signature_replay"]);
    expect(seen).toHaveLength(2);
    expect(JSON.stringify(seen)).not.toContain("sign-in-with-x");
  });

  it("is let in by no signature for another method or path, or for its own calls", async () => {
    const header = () => signIn(accounts.stranger, "/staff/hello");
    for (const refused of [
      await withSignIn("/staff/other", await header()),
      await withSignIn("/staff/hello", await header(), { method: "POST", body: "" }),
      await withSignIn("/x402/calls", await header()),
      await withSignIn("/staff/hello", await signIn(accounts.stranger, "/x402/calls")),
    ])
      expect([refused.status, await codeOf(refused)]).toEqual([403, "signature_mismatch"]);
    // The query is not a part of what is signed.
    expect((await withSignIn("/staff/hello?a=b", await header())).status).toBe(200);
    expect(seen).toHaveLength(1);
  });

  it("has to pay if the seller does not know it", async () => {
    const answer = await withSignIn("/staff/hello", await signIn(accounts.payer, "/staff/hello"));
    expect([answer.status, await codeOf(answer)]).toEqual([402, "payment_required"]);
    expect(seen).toEqual([]);
  });
});

describe("A payer of an earlier payment", () => {
  const again = async (target: string, account: TestAccount = accounts.payer, init: RequestInit = {}) =>
    withSignIn(target, await signIn(account, target, init), init);

  it("has the request that was bought anew, and no other", async () => {
    const before = await received();
    const { answer } = await buy("/again/paris?days=3");
    expect(await answer.text()).toBe("answer 1");
    const paid = await received();
    expect(paid).toBeGreaterThan(before);
    const fresh = await again("/again/paris?days=3");
    expect([fresh.status, await fresh.text()]).toEqual([200, "answer 2"]);
    // The payer's own key signs for another network.
    const elsewhere = await signChallenge(accounts.payer, await ask("/again/paris?days=3"), "eip155:10");
    expect((await withSignIn("/again/paris?days=3", elsewhere)).status).toBe(200);
    for (const other of ["/again/paris?days=4", "/again/paris", "/again/rome?days=3"])
      expect((await again(other)).status).toBe(402);
    expect((await again("/again/paris?days=3", accounts.payer, { method: "POST", body: "" })).status).toBe(
      402,
    );
    expect((await again("/again/paris?days=3", accounts.stranger)).status).toBe(402);
    expect(seen).toHaveLength(3);
    expect(await received()).toBe(paid);
  });

  it("has a body anew only as it was bought", async () => {
    const init = { method: "POST", body: "one" };
    await buy("/again/post", init);
    expect((await again("/again/post", accounts.payer, init)).status).toBe(200);
    expect((await again("/again/post", accounts.payer, { ...init, body: "two" })).status).toBe(402);
    expect(seen.map(({ body }) => body)).toEqual(["one", "one"]);
  });

  it("has nothing for a payment that was not charged, or was paid back", async () => {
    status = 500;
    await buy("/again/failed");
    const { answer } = await buy("/kept/failed");
    expect(answer.status).toBe(500);
    status = 200;
    expect((await again("/again/failed")).status).toBe(402);
    expect((await again("/kept/failed")).status).toBe(402);
    await buy("/kept/fine");
    expect((await again("/kept/fine")).status).toBe(200);
  });
});
