import { createPublicKey, verify } from "node:crypto";
import { describe, expect, it } from "vitest";
import { Fail } from "../../src/runner/job.ts";
import { eventually } from "../helpers/eventually.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startReceiver } from "../parts/callbacks/callback-harness.ts";
import { ALL_PROTOCOLS, type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
let config = "";
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle: ({ body }) => {
      if (Buffer.from(body).toString() === "fail") throw new Fail("no ink");
      return undefined;
    },
    edit: (text) => {
      config = text.replace("[x402.mpp]", '[x402.callbacks]\nallowed_addresses = ["127.0.0.1"]\n[x402.mpp]');
      return config;
    },
  }),
);

async function publishedKey({ jobgate }: PaidGateway) {
  const response = await fetch(`${jobgate.x402Url}/.well-known/jobgate-keys.json`);
  const { keys } = (await response.json()) as { keys: [{ kty: string; crv: string; x: string }] };
  return createPublicKey({ key: keys[0], format: "jwk" });
}

describe("A buyer's Callback-URL", () => {
  it.each(ALL_PROTOCOLS)(
    "Reports how the call ended, bought over %s, signed with the published key",
    async (name) => {
      const receiver = await startReceiver();
      const protocol = gateway.at(name);
      const body = `over ${name}`;
      const headers = { "callback-url": receiver.url };
      const payment = await protocol.sign({ body });
      const bought = await protocol.send(payment, { body, headers });
      await gateway.waitForJobs(body);
      await eventually(() => expect(receiver.calls).toHaveLength(1));
      const [{ headers: sent, body: told }] = receiver.calls as [(typeof receiver.calls)[0]];
      const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature } = sent;
      const [, base64 = ""] = String(signature).split(",");
      const signed = Buffer.from(`${String(id)}.${String(time)}.${told}`);
      expect(verify(null, signed, await publishedKey(gateway), Buffer.from(base64, "base64"))).toBe(true);
      const { data } = JSON.parse(told) as { data: { call_id: number } };
      expect(data).toMatchObject({ status: "succeeded", service_id: 1, job_id: 0 });
      expect(data).toMatchObject({ call_url: `http://127.0.0.1:8402/x402/calls/${data.call_id}` });
      if (bought.call_id !== undefined) expect(data.call_id).toBe(bought.call_id);
      expect(told).not.toContain(bought.access_token ?? "access_token");
    },
  );

  it("Reports a job that failed", async () => {
    const receiver = await startReceiver();
    const payment = await gateway.sign();
    await gateway.send(payment, { body: "fail", headers: { "callback-url": receiver.url } });
    await eventually(() => expect(receiver.calls).toHaveLength(1));
    expect(JSON.parse(receiver.calls[0]?.body ?? "")).toMatchObject({ data: { status: "failed" } });
    expect(receiver.calls[0]?.body).not.toContain("no ink");
  });

  it("Belongs to what is paid for: the same payment with another one, or none, buys nothing", async () => {
    const receiver = await startReceiver();
    const payment = await gateway.sign();
    const send = (headers: Record<string, string>) => gateway.send(payment, { body: "bound", headers });
    const mine = { "callback-url": receiver.url };
    const first = await send(mine);
    expect(first).toMatchObject({ status: 202 });
    expect(await send(mine)).toMatchObject({ status: 202, call_id: first.call_id });
    // A fragment is not sent to anybody.
    expect(await send({ "callback-url": `${receiver.url}#a` })).toMatchObject({ call_id: first.call_id });
    for (const other of [{}, { "callback-url": `${receiver.url}?other` }])
      expect(await send(other)).toMatchObject({ status: 409, code: "payment_replay", charged: false });
    await gateway.waitForJobs("bound");
    await eventually(() => expect(receiver.calls).toHaveLength(1));
    const without = await gateway.sign();
    await gateway.send(without, { body: "unbound" });
    expect(await gateway.send(without, { body: "unbound", headers: mine })).toMatchObject({ status: 409 });
  });

  it("Hides no outcome once buyers are no longer called back", async () => {
    const [payment, unused] = [await gateway.sign(), await gateway.sign()];
    const options = { body: "kept", headers: { "callback-url": (await startReceiver()).url.toUpperCase() } };
    const first = await gateway.send(payment, options);
    expect(first).toMatchObject({ status: 202 });
    await gateway.jobgate.reload(config.replace("[x402.callbacks]", "[x402.callbacks]\nenabled = false"));
    const refused = { status: 400, code: "invalid_callback_url", charged: false };
    await eventually(async () => expect(await gateway.send({ headers: {} }, options)).toMatchObject(refused));
    expect(await gateway.send(payment, options)).toEqual(first);
    expect(await gateway.send(unused, options)).toMatchObject(refused);
    await gateway.jobgate.reload(config);
    await eventually(async () =>
      expect(await gateway.send({ headers: {} }, options)).toMatchObject({ status: 402 }),
    );
  });

  it.each([
    "http://buyer.example/",
    "https://127.0.0.2/",
    "https://10.0.0.1/",
    "https://[::ffff:169.254.169.254]/",
    "https://metadata.google.internal/",
    "https://ada:secret@buyer.example/",
    "https://buyer.example:22/",
    "nonsense",
  ])("%s is refused before anything is charged, with a payment and without", async (url) => {
    const payment = await gateway.sign();
    const headers = { "callback-url": url };
    for (const paid of [payment, { headers: {} }]) {
      const answer = await gateway.send(paid, { body: "refused", headers });
      expect(answer).toMatchObject({ status: 400, code: "invalid_callback_url", charged: false });
    }
    // The payment is as good as new.
    expect(await gateway.send(payment, { body: "not refused" })).toMatchObject({ status: 202 });
    expect(gateway.jobsWith("refused")).toEqual([]);
  });
});
