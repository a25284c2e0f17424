import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type HttpListener, listenHttp } from "./http-listener.ts";
import { type FaultProxy, startFaultProxy } from "./http-proxy.ts";

let upstream: HttpListener;
let proxy: FaultProxy;
let heard = 0;

beforeAll(async () => {
  upstream = await listenHttp({
    handler: (request, response) => {
      heard++;
      request.resume().once("end", () => response.setHeader("content-type", "text/plain").end("an answer"));
    },
  });
  proxy = await startFaultProxy({ target: upstream.url });
});

afterEach(() => proxy.clear());

afterAll(async () => {
  await proxy?.stop();
  await upstream?.stop();
});

const post = (path = "/", body = "{}"): Promise<Response> =>
  fetch(proxy.url + path, { method: "POST", body, signal: AbortSignal.timeout(50_000) });

/** Counts the requests that reached the upstream while `work` ran. */
async function heardDuring(work: () => Promise<unknown>): Promise<number> {
  const before = heard;
  await work();
  return heard - before;
}

it("Without a rule, requests and answers pass unchanged", async () => {
  expect(await (await post()).text()).toBe("an answer");
  expect(proxy.requests.at(-1)).toMatchObject({ method: "POST", path: "/", body: Buffer.from("{}") });
});

it("A cut request never reaches the upstream; a request whose answer is lost does", async () => {
  proxy.add({ fault: { kind: "cut" }, times: 1 });
  expect(await heardDuring(() => expect(post()).rejects.toThrow("fetch failed"))).toBe(0);
  proxy.add({ fault: { kind: "lose-answer" }, times: 1 });
  expect(await heardDuring(() => expect(post()).rejects.toThrow("fetch failed"))).toBe(1);
  expect((await post()).status).toBe(200);
});

it("A rule applies only to the path or JSON-RPC method that it names", async () => {
  proxy.add({ path: "/settle", fault: { kind: "answer", status: 500, body: { error: "no" } } });
  proxy.add({ rpcMethod: "eth_call", fault: { kind: "answer", status: 503, body: "down" } });
  expect((await post("/verify")).status).toBe(200);
  const refused = await post("/settle");
  expect([refused.status, await refused.json()]).toEqual([500, { error: "no" }]);
  expect((await post("/", '[{"method":"eth_chainId"},{"method":"eth_call"}]')).status).toBe(503);
  expect((await post("/", '{"method":"eth_chainId"}')).status).toBe(200);
  expect([proxy.count("/settle"), proxy.count("eth_call")]).toEqual([1, 1]);
});

it("Answers can be changed, delayed, slowed and cut", async () => {
  const change = (text: string) => Buffer.from(text.replace("an", "another"));
  proxy.add({
    times: 1,
    fault: { kind: "change", change: (answer) => ({ ...answer, body: change(answer.body.toString()) }) },
  });
  expect(await (await post()).text()).toBe("another answer");
  for (const kind of ["delay-request", "delay-answer"] as const) {
    proxy.add({ times: 1, fault: { kind, ms: 60 } });
    const startedAt = performance.now();
    await post();
    expect(performance.now() - startedAt).toBeGreaterThan(50);
  }
  proxy.add({ times: 1, fault: { kind: "slow-body", everyMs: 10 } });
  const startedAt = performance.now();
  expect(await (await post()).text()).toBe("an answer");
  expect(performance.now() - startedAt).toBeGreaterThan(70);
  proxy.add({ times: 1, fault: { kind: "truncate", bytes: 3 } });
  await expect(post().then((response) => response.text())).rejects.toThrow("terminated");
});

it("While down it refuses connections, and it comes back on the same port", async () => {
  await proxy.goDown();
  await expect(post()).rejects.toThrow("fetch failed");
  await proxy.comeBack();
  expect((await post()).status).toBe(200);
});
