import { fromBinary } from "@bufbuild/protobuf";
import type { PaymentRequiredV1 } from "@x402/core/types/v1";
import { describe, expect, it, onTestFinished } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { JobCallSchema } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { signV1Payment } from "../../helpers/clients.ts";
import { eventually } from "../../helpers/eventually.ts";
import { startFaultProxy } from "../../helpers/http-proxy.ts";
import { sendText } from "../../helpers/mcp.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne } from "../../store/store-fixtures.ts";
import { MAX_BODY, type TestGateway } from "../../x402/gateway-harness.ts";
import { AMOUNT, JOB } from "../../x402/payments.ts";
import { Agent, messageOf, metadataOf, paymentFor, type ShownTask, startShop } from "./agent.ts";
import { soldByA2a } from "./tables.ts";

const parts = startBeforeAll(startPaidParts);

async function finish({ store }: TestGateway, body: string | Buffer, contentType = "text/plain") {
  await eventually(async () => store.ack(await claimOne(store), { body: Buffer.from(body), contentType }));
}

async function callsOf({ store }: TestGateway): Promise<object> {
  const { calls, payments } = await store.totals();
  return { ready: calls.ready, held: calls.held, settled: payments.settled };
}

const NOTHING = { ready: 0, held: 0, settled: 0 };

describe("A message", () => {
  it("Begins a task with offers, and a message with its taskId pays for it: the task has the result", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const task = await agent.ask();
    expect(task).toMatchObject({
      kind: "task",
      id: expect.stringMatching(/^[\w.-]{100,}$/),
      status: { state: "input-required" },
    });
    expect(metadataOf(task)).toMatchObject({
      "x402.payment.status": "payment-required",
      "x402.payment.required": {
        x402Version: 2,
        resource: { url: expect.stringContaining("/x402/jobs/1/0") },
        accepts: [{ scheme: "exact", amount: AMOUNT }],
      },
    });
    const paid = agent.send(await paymentFor(task));
    await finish(shop, "done");
    const done = await paid;
    expect(done).toMatchObject({
      id: task.id,
      contextId: task.contextId,
      status: { state: "completed" },
      artifacts: [{ artifactId: "result", parts: [{ kind: "text", text: "done" }] }],
      metadata: { "jobgate/call": { call_id: 1, state: "succeeded" } },
    });
    expect(metadataOf(done)).toEqual({
      "x402.payment.status": "payment-completed",
      "x402.payment.receipts": [expect.objectContaining({ success: true, network: "eip155:84532" })],
    });
    expect(await agent.get(task.id)).toEqual(done);
  });

  it("Gets the runner what its parts say: texts, data as JSON, and files byte for byte", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const bytes = Buffer.from([0, 255, 10]).toString("base64");
    const cases = [
      [
        [
          { kind: "text", text: "one" },
          { kind: "text", text: "two" },
        ],
        "one\ntwo",
        "text/plain; charset=utf-8",
      ],
      [[{ kind: "data", data: { a: [1] } }], '{"a":[1]}', "application/json"],
      [[{ kind: "data", data: { value: 7 }, metadata: { data_part_compat: true } }], "7", "application/json"],
      [[{ kind: "file", file: { bytes, mimeType: "image/png" } }], "\0\xff\n", "image/png"],
      [[{ raw: bytes, mediaType: "image/gif" }], "\0\xff\n", "image/gif"],
      [[{ data: [2] }], "[2]", "application/json"],
    ] as const;
    for (const [sent, body, contentType] of cases) {
      const task = await agent.send({ parts: sent, metadata: { skillId: "job-1-0" } });
      await agent.send(await paymentFor(task), { blocking: false });
      const call = await claimOne(shop.store);
      const { body: got, metadata } = fromBinary(JobCallSchema, call.encoded);
      expect([Buffer.from(got).toString("latin1"), metadata["X-HTTP-CONTENT-TYPE"]]).toEqual([
        body,
        contentType,
      ]);
      await shop.store.ack(call);
    }
  });

  it("Gets the runner all digits of the numbers in its data, and no header that is there twice", async () => {
    const input = { contentType: "application/json" };
    const shop = await startShop(parts, { jobs: [{ ...JOB, input }], maxWaitMs: 0 });
    const agent = new Agent(shop);
    const data = '{"id":12345678901234567890,"n":5.0000000000000000001}';
    const begin = (part: string) =>
      sendText(
        `${shop.url}/a2a`,
        `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","metadata":{"skillId":"job-1-0"},"parts":[${part}]}}}`,
      );
    const { result } = (await begin(`{"kind":"data","data":${data}}`)) as { readonly result?: unknown };
    await agent.send(await paymentFor(result as ShownTask));
    const { body } = fromBinary(JobCallSchema, (await claimOne(shop.store)).encoded);
    expect(Buffer.from(body).toString()).toBe(data);
    expect(await begin('{"kind":"data","data":{"n":5,"n":50}}')).toMatchObject({
      error: { code: -32600, message: 'The key "n" is there twice.' },
    });
    const twice = { "jobgate/headers": { "X-Tier": "a", "x-tier": "gold" } };
    expect((await agent.try({ metadata: twice })).error).toMatchObject({
      message: 'message.metadata["jobgate/headers"] has x-tier twice.',
    });
  });

  it("Shows results as data with all digits, as text, as files, and by a link where they are large", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const show = async (body: string | Buffer, contentType: string) => {
      const { id } = await agent.send(await paymentFor(await agent.ask()), { blocking: false });
      await finish(shop, body, contentType);
      const url = `${shop.url}/a2a`;
      const request = { jsonrpc: "2.0", id: 1, method: "GetTask", params: { id } };
      const answer = await (await fetch(url, { method: "POST", body: JSON.stringify(request) })).text();
      return answer;
    };
    expect(await show('{"n":12345678901234567890}', "application/json")).toContain(
      '"parts":[{"data":{"n":12345678901234567890},"mediaType":"application/json"}]',
    );
    expect(await show("no json", "application/json")).toContain(
      '"text":"no json","mediaType":"application/json"',
    );
    expect(await show(Buffer.from([1, 2]), "image/png")).toContain('{"raw":"AQI=","mediaType":"image/png"');
    expect(await show(Buffer.alloc(1_200_000, "x"), "text/plain")).toMatch(
      /"url":"https:\/\/operator\.example\.com\/x402\/calls\/\d+\/result"/,
    );
  });

  it("Names its job by skillId, unless one job alone is for sale; an unknown one is refused with the names", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const named = { code: -32602, message: expect.stringContaining("expected one of job-1-0, job-1-1") };
    expect((await agent.try({})).error).toMatchObject(named);
    expect((await agent.try({ metadata: { skillId: "job-1-2" } })).error).toMatchObject(named);
    const one = await startShop(parts, { jobs: [{ ...JOB, name: "only" }] });
    expect(metadataOf(await new Agent(one).send({ metadata: { skillId: "only" } }))).toMatchObject({
      "x402.payment.status": "payment-required",
    });
  });

  it("Is refused if its parts are no input, and nothing is charged", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const refused = async (sent: object[]) =>
      (await agent.try({ parts: sent, metadata: { skillId: "job-1-0" } })).error?.message;
    expect(await refused([])).toContain("params.message.parts");
    expect(
      await refused([
        { kind: "text", text: "a" },
        { kind: "data", data: {} },
      ]),
    ).toContain("has text, data");
    expect(await refused([{ kind: "file", file: { uri: "https://a.example/f" } }])).toContain("by its URL");
    expect(await refused([{ kind: "file", file: { bytes: "a%" } }])).toContain("not base64");
    expect(await refused([{ kind: "text" }])).toContain("without content");
    const { error } = await agent.try({
      parts: [{ kind: "text", text: "x".repeat(MAX_BODY + 1) }],
      metadata: { skillId: "job-1-0" },
    });
    expect(error).toMatchObject({ code: -32000, data: { code: "body_too_large", charged: false } });
    expect(await callsOf(shop)).toEqual(NOTHING);
  });

  it("Keeps the client's context, and a later message of another context is refused", async () => {
    const agent = new Agent(await startShop(parts));
    const task = await agent.send({ contextId: "my context", metadata: { skillId: "job-1-0" } });
    expect([task.contextId, (await agent.get(task.id)).contextId]).toEqual(["my context", "my context"]);
    const { error } = await agent.try({ ...(await paymentFor(task)), contextId: "another" });
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('"another"') });
  });
});

describe("A payment", () => {
  it("Sent again returns the same task, and is charged once, at once and later", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const task = await agent.ask();
    const payment = await paymentFor(task);
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => agent.send(payment, { blocking: false })),
    );
    answers.push(await agent.send(payment, { blocking: false }));
    for (const answer of answers)
      expect([answer.id, answer.metadata?.["jobgate/call"].call_id]).toEqual([task.id, 1]);
    expect(await callsOf(shop)).toEqual({ ready: 1, held: 0, settled: 1 });
  });

  it("Is one of two for a task that is charged, of one payer or of two, at once and later", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    for (const other of [accounts.payer, accounts.otherPayer]) {
      const before = await shop.store.totals();
      const task = await agent.ask();
      const two = [await paymentFor(task), await paymentFor(task, other)];
      const answers = await Promise.all(two.map((payment) => agent.send(payment, { blocking: false })));
      const later = await agent.send(await paymentFor(task, other), { blocking: false });
      const { payments } = await shop.store.totals();
      expect(payments.settled - before.payments.settled).toBe(1);
      const done = await agent.get(task.id);
      for (const { id, status } of [...answers, later])
        expect([id, status.state]).toEqual([task.id, "working"]);
      expect(later.metadata?.["jobgate/call"]).toEqual(done.metadata?.["jobgate/call"]);
    }
  });

  it("That is refused leaves its task open with the reason and fresh offers, and another one pays", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const task = await agent.ask();
    const poor = await agent.send(await paymentFor(task, accounts.stranger));
    expect(poor).toMatchObject({ id: task.id, status: { state: "input-required" } });
    expect(metadataOf(poor)).toMatchObject({
      "x402.payment.status": "payment-failed",
      "x402.payment.error": "INSUFFICIENT_FUNDS",
      "x402.payment.required": { accepts: [{ amount: AMOUNT }] },
      "jobgate/refusal": { code: "payment_invalid", charged: false },
    });
    const garbage = await agent.send({ taskId: task.id, metadata: { "x402.payment.payload": { no: 1 } } });
    expect(metadataOf(garbage)).toMatchObject({
      "x402.payment.status": "payment-failed",
      "x402.payment.error": "invalid_payment",
    });
    expect(await callsOf(shop)).toEqual(NOTHING);
    const paid = await agent.send(await paymentFor(poor), { blocking: false });
    expect(metadataOf(paid)).toMatchObject({ "x402.payment.status": "payment-completed" });
  });

  it("That bought a job over HTTP or as another task is answered with that job, and charged once", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const { headers, payload } = await shop.sign();
    const { body } = await shop.post(headers);
    const task = await agent.ask("work");
    const metadata = { "x402.payment.payload": payload };
    const shown = await agent.send({ taskId: task.id, metadata }, { blocking: false });
    expect(shown.metadata?.["jobgate/call"]).toMatchObject({
      call_id: body.call_id,
      access_token: body.access_token,
    });
    const another = await agent.ask("work");
    await agent.send({ taskId: another.id, metadata }, { blocking: false });
    for (const { id } of [task, another])
      expect((await agent.get(id)).metadata?.["jobgate/call"].call_id).toBe(body.call_id);
    const otherInput = await agent.ask("other work");
    expect(metadataOf(await agent.send({ taskId: otherInput.id, metadata }))).toMatchObject({
      "x402.payment.status": "payment-failed",
      "x402.payment.error": "DUPLICATE_NONCE",
    });
    expect(await callsOf(shop)).toEqual({ ready: 1, held: 0, settled: 1 });
  });

  it("Does not get the headers of a refused one before it", async () => {
    const shop = await startShop(parts, { jobs: [{ ...JOB, forwardHeaders: ["x-tier"] }], maxWaitMs: 0 });
    const agent = new Agent(shop);
    const pay = async (task: ShownTask, account: typeof accounts.payer, headers: object) => {
      const payment = await paymentFor(task, account);
      return agent.send({ ...payment, metadata: { ...Object(payment.metadata), ...headers } });
    };
    const valuesSent = async () => {
      const call = await claimOne(shop.store);
      await shop.store.ack(call);
      return Object.values(fromBinary(JobCallSchema, call.encoded).metadata);
    };
    const gold = { "jobgate/headers": { "x-tier": "gold" } };
    await pay(await agent.ask(), accounts.payer, gold);
    expect(await valuesSent()).toContain("gold");
    const task = await agent.ask();
    expect(metadataOf(await pay(task, accounts.stranger, gold))).toMatchObject({
      "x402.payment.status": "payment-failed",
    });
    await pay(task, accounts.payer, {});
    expect(await valuesSent()).not.toContain("gold");
  });

  it("In the first message buys at once", async () => {
    const shop = await startShop(parts);
    const { payload } = await shop.sign();
    const message = { metadata: { skillId: "job-1-0", "x402.payment.payload": payload } };
    const { status, metadata } = await new Agent(shop).send(message, { blocking: false });
    expect([status.state, metadata?.["jobgate/call"].call_id]).toEqual(["working", 1]);
  });

  it("Needs the input again once it is no longer kept, and then only the same input", async () => {
    const shop = await startShop(parts, { maxInputBytes: 1 });
    const agent = new Agent(shop);
    const task = await agent.ask("the input");
    const payment = await paymentFor(task);
    const forgotten = { code: -32602, message: expect.stringContaining("no longer kept") };
    expect((await agent.try(payment)).error).toMatchObject(forgotten);
    const another = [{ kind: "text", text: "another input" }];
    expect((await agent.try({ ...payment, parts: another })).error).toMatchObject(forgotten);
    expect(await callsOf(shop)).toEqual(NOTHING);
    expect((await agent.get(task.id)).status).toMatchObject({
      state: "input-required",
      message: { parts: [{ text: expect.stringContaining("send it again") }] },
    });
    const parts0 = [{ kind: "text", text: "the input" }];
    await agent.send({ ...payment, parts: parts0 }, { blocking: false });
    const { body } = fromBinary(JobCallSchema, (await claimOne(shop.store)).encoded);
    expect(Buffer.from(body).toString()).toBe("the input");
  });

  it("That its client rejects leaves the task open", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const task = await agent.ask();
    const rejected = await agent.send({
      taskId: task.id,
      metadata: { "x402.payment.status": "payment-rejected" },
    });
    expect([rejected.status.state, metadataOf(rejected)]).toEqual([
      "input-required",
      { "x402.payment.status": "payment-rejected" },
    ]);
    expect(await callsOf(shop)).toEqual(NOTHING);
    // Its input is kept.
    const paid = await agent.send(await paymentFor(task), { blocking: false });
    expect(metadataOf(paid)).toMatchObject({ "x402.payment.status": "payment-completed" });
  });

  it("That is marked as no payment, or names another job than its task's, is refused, and charges nothing", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const payment = await paymentFor(await agent.ask());
    for (const [metadata, problem] of [
      [{ "x402.payment.status": "payment-required" }, /expected "payment-submitted"/],
      [{ "x402.payment.status": 5 }, /is 5; expected/],
      [{ skillId: "job-1-1" }, /expected the task.s skill/],
      [{ skillId: "unknown" }, /expected the task.s skill/],
      [{ skillId: 7 }, /expected the task.s skill/],
    ] as const) {
      const { error } = await agent.try({
        ...payment,
        metadata: { ...Object(payment.metadata), ...metadata },
      });
      expect(error).toMatchObject({ code: -32602, message: expect.stringMatching(problem) });
    }
    expect(await callsOf(shop)).toEqual(NOTHING);
    const metadata = { ...Object(payment.metadata), skillId: "job-1-0" };
    expect(await agent.send({ ...payment, metadata }, { blocking: false })).toMatchObject({
      status: { state: "working" },
    });
  });

  it("Of x402 version 1 is offered to a client that activates the extension's version 0.1 alone, and pays", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const uri = "https://github.com/google-a2a/a2a-x402/v0.1";
    const params = { message: messageOf({ metadata: { skillId: "job-1-0" } }) };
    const { result, headers } = await agent.call("message/send", params, {
      "x-a2a-extensions": `urn:x, ${uri}`,
    });
    expect(headers.get("x-a2a-extensions")).toBe(uri);
    const task = result as unknown as ShownTask;
    const offer = metadataOf(task)["x402.payment.required"] as PaymentRequiredV1;
    expect(offer).toMatchObject({
      x402Version: 1,
      accepts: [{ network: "base-sepolia", maxAmountRequired: AMOUNT }],
    });
    const { payload } = await signV1Payment({ offer, account: accounts.payer });
    const paid = await agent.send(
      { taskId: task.id, metadata: { "x402.payment.payload": payload } },
      { blocking: false },
    );
    expect(metadataOf(paid)).toMatchObject({ "x402.payment.status": "payment-completed" });
  });
});

describe("A task", () => {
  it("Whose job has been removed is shown to its buyer, also by the same payment", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const task = await agent.ask();
    const payment = await paymentFor(task);
    const paid = await agent.send(payment, { blocking: false });
    await shop.reload({ parts: soldByA2a(), jobPricing: new Map() });
    expect(await agent.send(payment, { blocking: false })).toEqual(paid);
    expect(await agent.get(task.id)).toEqual(paid);
  });

  it("Is a replay for a known payment in a message whose parts make no input", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const { taskId, metadata } = await paymentFor(await agent.ask());
    const named = { ...(metadata as object), skillId: "job-1-0" };
    const unfit = {
      parts: [
        { kind: "text", text: "a" },
        { kind: "data", data: 1 },
      ],
      metadata: named,
    };
    expect((await agent.try(unfit)).error).toMatchObject({ code: -32602 });
    await agent.send({ taskId, metadata }, { blocking: false });
    const replay = { code: -32000, data: { code: "payment_replay", charged: "unknown" } };
    expect((await agent.try(unfit)).error).toMatchObject(replay);
  });

  it("Is at work while it is not known whether its payment was settled, also without its input", async () => {
    const facilitator = await startFaultProxy({ target: parts.facilitator.url });
    onTestFinished(() => facilitator.stop());
    const shop = await startShop({ ...parts, facilitator }, { maxInputBytes: 1 });
    const agent = new Agent(shop);
    const task = await agent.ask();
    facilitator.add({ path: "/settle", fault: { kind: "cut" } });
    const payment = await paymentFor(task);
    const input = [{ kind: "text", text: "work" }];
    const first = await agent.send({ ...payment, parts: input });
    expect(metadataOf(first)).toMatchObject({
      "x402.payment.status": "payment-submitted",
      "jobgate/refusal": { code: "settlement_unknown", charged: "unknown" },
    });
    for (const shown of [first, await agent.send(payment), await agent.get(task.id)])
      expect([shown.status.state, metadataOf(shown)["x402.payment.status"]]).toEqual([
        "working",
        "payment-submitted",
      ]);
    expect((await agent.call("tasks/cancel", { id: task.id })).error).toMatchObject({ code: -32002 });
  });

  it("Is refused without a claim that nothing was charged while the store cannot be read, unless nothing can have been", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const payment = await paymentFor(await agent.ask());
    await agent.send(payment, { blocking: false });
    shop.store.findCall = () =>
      Promise.reject(new GatewayError("store_unavailable", "The store cannot be read."));
    const refused = {
      code: -32000,
      data: { code: "store_unavailable", charged: "unknown", retryable: true },
    };
    expect((await agent.try(payment)).error).toMatchObject(refused);
    expect((await agent.call("tasks/get", { id: payment.taskId })).error).toMatchObject(refused);
  });

  it("Is shown to no client without its ID, whatever the ID resembles", async () => {
    const agent = new Agent(await startShop(parts));
    const { id } = await agent.ask();
    const other = new Agent(await startShop(parts));
    const changed = `${id.slice(0, -1)}${id.endsWith("A") ? "B" : "A"}`;
    const [random, made, , ...rest] = id.split(".");
    for (const [to, unknown] of [
      [agent, changed],
      [agent, [random, made, "1-1", ...rest].join(".")],
      [agent, "1"],
      [agent, ""],
      [other, id],
    ] as const)
      for (const method of ["tasks/get", "CancelTask", "tasks/resubscribe"])
        expect((await to.call(method, { id: unknown })).error).toMatchObject({ code: -32001 });
    expect((await agent.try({ taskId: changed })).error).toMatchObject({ code: -32001 });
    const guess = () => agent.call("tasks/get", { id: changed });
    const guesses = await Promise.all(Array.from({ length: 20 }, guess));
    expect(guesses.at(-1)?.error).toMatchObject({ data: { code: "rate_limited" } });
    expect((await agent.get(id)).status.state).toBe("input-required");
  });

  it("That nothing has paid for is cancelled, and then no payment is used; a paid one is not cancelled", async () => {
    const shop = await startShop(parts);
    const agent = new Agent(shop);
    const task = await agent.ask();
    const payment = await paymentFor(task);
    for (const method of ["tasks/cancel", "tasks/cancel", "tasks/get"])
      expect((await agent.call(method, { id: task.id })).result).toMatchObject({
        status: { state: "canceled" },
      });
    expect((await agent.send(payment)).status.state).toBe("canceled");
    expect(await callsOf(shop)).toEqual(NOTHING);
    const paid = await agent.send(await paymentFor(await agent.ask()), { blocking: false });
    const { error } = await agent.call("tasks/cancel", { id: paid.id });
    expect(error).toMatchObject({ code: -32002, message: expect.stringContaining("paid for") });
    await finish(shop, "done");
    expect((await agent.call("CancelTask", { id: paid.id })).error).toMatchObject({ code: -32002 });
  });

  it("That is cancelled while its payment is verified is shown as cancelled to who sent the payment", async () => {
    const facilitator = await startFaultProxy({ target: parts.facilitator.url });
    onTestFinished(() => facilitator.stop());
    const shop = await startShop({ ...parts, facilitator });
    const agent = new Agent(shop);
    const task = await agent.ask();
    const cancelled = facilitator.during({ path: "/verify" }, () =>
      agent.call("tasks/cancel", { id: task.id }),
    );
    const shown = await agent.send(await paymentFor(task));
    expect([(await cancelled).result, shown]).toMatchObject([
      { status: { state: "canceled" } },
      { status: { state: "canceled" } },
    ]);
    expect([await callsOf(shop), facilitator.count("/settle")]).toEqual([NOTHING, 0]);
  });

  it("Goes on after the longest wait, at once for a client that does not wait, and ends as its job does", async () => {
    const shop = await startShop(parts, { maxWaitMs: 1 });
    const agent = new Agent(shop);
    const { id, status } = await agent.send(await paymentFor(await agent.ask()));
    expect(status.state).toBe("working");
    await shop.store.fail(await claimOne(shop.store), "no paper");
    expect(await agent.get(id)).toMatchObject({
      status: { state: "failed", message: { parts: [{ text: expect.stringContaining("no paper") }] } },
    });
  });

  it("Has a result that is not kept once, and says so afterwards", async () => {
    const shop = await startShop(parts, { jobs: [{ ...JOB, storeAnswers: false }] });
    const agent = new Agent(shop);
    const paid = agent.send(await paymentFor(await agent.ask()));
    await finish(shop, "once");
    const { id, artifacts } = await paid;
    expect(artifacts).toMatchObject([{ parts: [{ text: "once" }] }]);
    await expect
      .poll(async () => (await agent.get(id)).artifacts)
      .toMatchObject([{ parts: [{ text: expect.stringContaining("not kept") }] }]);
  });

  it("Is found again at another replica of the same store", async () => {
    const shop = await startShop(parts);
    const replica = await startShop(parts, {}, { store: shop.store });
    const open = await new Agent(shop).ask();
    const payment = await paymentFor(open);
    const input = [{ kind: "text", text: "work" }];
    const paid = await new Agent(replica).send({ ...payment, parts: input }, { blocking: false });
    expect(await new Agent(shop).get(open.id)).toEqual(paid);
  });

  it("Ends a day after it began if nothing has paid for it", async () => {
    let now = Date.now();
    const shop = await startShop(parts, {}, { clock: () => now });
    const agent = new Agent(shop);
    const { id } = await agent.ask();
    now += 86_400_000;
    expect((await agent.call("tasks/get", { id })).error).toMatchObject({ code: -32001 });
  });
});
