import { expect, it } from "vitest";
import { encodeHeader } from "../../../src/x402/wire/payment-header.ts";
import { channelClient } from "../../helpers/channels.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { sendRpc } from "../../helpers/mcp.ts";
import { readBase64Json } from "../../helpers/mpp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { KEPT, newPayer, RETURNED, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const ROUTE = `[[jobs]]
name = "weather"
route = "POST /weather/{city}"
forward_headers = ["x-units"]
mode = "public_paid"
price = "$0.001"
answer = "result"
`;
const MCP = "[mcp]\nenabled = true\n";

/** Starts a shop that sells the weather, and buys it twice from a channel. */
async function open() {
  let config = "";
  const shop = await startChannelShop(parts, {
    jobs: ROUTE + MCP,
    async start(options) {
      ({ config } = options);
      return startEmbeddedJobgate(options);
    },
    handle: ({ body }) => ({ body, contentType: "text/plain" }),
  });
  const sent: string[] = [];
  const { fetch } = channelClient({
    anvil: parts.anvil,
    payer: await newPayer(parts),
    async fetch(target, init) {
      const request = new Request(target, init);
      const header = request.headers.get("payment-signature");
      if (header !== null) sent.push(header);
      return globalThis.fetch(request);
    },
  });
  const urlOf = (city: string) => `${shop.jobgate.x402Url}/weather/${city}`;
  return {
    shop,
    urlOf,
    reload: (jobs: string) => shop.jobgate.reload(config.replace(ROUTE, jobs)),
    /** Buys twice. @returns the headers of the vouchers */
    async buyTwice(url: string): Promise<[one: string, two: string]> {
      for (const body of ["one", "two"])
        await fetch(url, { method: "POST", body, headers: { "x-units": "K" } });
      const [one = "", two = ""] = sent;
      return [one, two];
    },
  };
}

const send = async (url: string, header: string, body: string) => {
  const answer = await fetch(url, {
    method: "POST",
    body,
    headers: { "payment-signature": header, "x-units": "K" },
  });
  return [answer.status, await answer.text()];
};

it("A voucher gets its first outcome after its route was moved or removed, for the same request alone", async () => {
  const { shop, buyTwice, urlOf, reload } = await open();
  const [one, two] = await buyTwice(urlOf("Oslo"));
  for (const jobs of [ROUTE.replace("/weather", "/forecast"), ""]) {
    await reload(jobs);
    await expect.poll(async () => (await fetch(urlOf("Oslo"))).status).toBe(404);
    expect(await send(urlOf("Oslo"), one, "one")).toEqual([200, "one"]);
    expect(await send(urlOf("Oslo"), two, "two")).toEqual([200, "two"]);
    expect((await send(urlOf("Oslo"), two, "one"))[0]).toBe(404);
    expect((await send(urlOf("Rome"), two, "two"))[0]).toBe(404);
  }
  expect(shop.runner.calls).toHaveLength(2);
  await shop.stop();
});

it("A voucher gets its first outcome at a path that another job has now, for the same request alone", async () => {
  const { shop, buyTwice, urlOf, reload } = await open();
  const [one, two] = await buyTwice(urlOf("Oslo"));
  // A route's path, as it is written, decides the number of its job.
  await reload(ROUTE.replace("{city}", "{town}"));
  const spec = async () => (await fetch(`${shop.jobgate.x402Url}/openapi.json`)).text();
  await expect.poll(spec).toContain("{town}");
  expect(await send(urlOf("Oslo"), one, "one")).toEqual([200, "one"]);
  expect(await send(urlOf("Oslo"), two, "two")).toEqual([200, "two"]);
  expect((await send(urlOf("Oslo"), two, "one"))[0]).toBe(402);
  expect((await send(urlOf("Rome"), two, "two"))[0]).toBe(402);
  expect(shop.runner.calls).toHaveLength(2);
  await shop.stop();
});

it("A voucher that bought a job by its number buys nothing, and gets nothing, by the number of another job", async () => {
  const { shop, buyTwice } = await open();
  const [one, two] = await buyTwice(shop.urlOf(RETURNED));
  for (const [voucher, body] of [
    [one, "one"],
    [two, "two"],
  ] as const) {
    expect((await send(shop.urlOf(RETURNED), voucher, body))[0]).toBe(202);
    expect((await send(shop.urlOf(KEPT), voucher, body))[0]).toBe(402);
  }
  expect(shop.runner.calls).toHaveLength(2);
  await shop.stop();
});

it("A voucher gets its first outcome by its tool after a reload, with the same arguments alone", async () => {
  const { shop, reload } = await open();
  const args = { path: { city: "Oslo" }, body: "one" };
  const call = async (payment: object | undefined, sent: object | null = args) => {
    const _meta = payment === undefined ? {} : { "x402/payment": payment };
    const params = { name: "weather", arguments: sent, _meta };
    return sendRpc(`${shop.jobgate.x402Url}/mcp`, "tools/call", params);
  };
  const paid: object[] = [];
  // The client signs for offers that it gets over HTTP.
  const { fetch } = channelClient({
    anvil: parts.anvil,
    payer: await newPayer(parts),
    async fetch(target, init) {
      const header = new Request(target, init).headers.get("payment-signature");
      const payment = header === null ? undefined : (readBase64Json(header) as object);
      const { result } = await call(payment);
      if (result?.isError !== true) {
        if (payment !== undefined) paid.push(payment);
        return new Response("bought");
      }
      return new Response("", {
        status: 402,
        headers: { "payment-required": encodeHeader(result.structuredContent as object) },
      });
    },
  });
  for (const _ of [1, 2])
    expect(await (await fetch("http://127.0.0.1/", { method: "POST" })).text()).toBe("bought");
  const text = { content: [{ type: "text", text: "one" }] };
  const ran = shop.runner.calls.length;
  for (const [jobs, refusal] of [
    [ROUTE.replace("city", "place"), "path.place"],
    ["", "no tool"],
  ] as const) {
    const { "jobgate/call": before } = (await call(paid[1]))?.result?._meta ?? {};
    await reload(jobs);
    await expect
      .poll(async () => JSON.stringify((await call(undefined, { path: {} })).error))
      .toContain(refusal);
    for (const payment of paid) expect(await call(payment)).toMatchObject({ result: text });
    expect((await call(paid[1])).result?._meta).toMatchObject({ "jobgate/call": before });
    for (const other of [{ path: { city: "Rome" }, body: "one" }, null])
      expect((await call(paid[1], other)).result?.content).not.toEqual(text.content);
  }
  expect(shop.runner.calls).toHaveLength(ran);
  await shop.stop();
});
