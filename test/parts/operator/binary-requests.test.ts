import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect, onTestFinished, test } from "vitest";
import {
  GetTotalsResponseSchema,
  ListDeadLettersRequestSchema,
  ListDeadLettersResponseSchema,
} from "../../../src/gen/jobgate/v1/operator_pb.ts";
import { startOperator } from "../../helpers/operator.ts";

async function start() {
  const operator = await startOperator();
  onTestFinished(() => operator.stop());
  const send = (method: string, body: Uint8Array<ArrayBuffer>) =>
    fetch(`${operator.url}/jobgate.v1.OperatorService/${method}`, {
      method: "POST",
      headers: { "content-type": "application/proto" },
      body,
    });
  return { operator, send };
}

test("A binary request is answered in binary", async () => {
  const { operator, send } = await start();
  const callId = await operator.deadLetter();
  const totals = await send("GetTotals", new Uint8Array());
  expect(fromBinary(GetTotalsResponseSchema, new Uint8Array(await totals.arrayBuffer())).calls?.dead).toBe(
    1n,
  );
  const request = toBinary(
    ListDeadLettersRequestSchema,
    create(ListDeadLettersRequestSchema, { pageSize: 5 }),
  );
  const answer = await send("ListDeadLetters", new Uint8Array(request));
  const { deadLetters } = fromBinary(
    ListDeadLettersResponseSchema,
    new Uint8Array(await answer.arrayBuffer()),
  );
  expect(deadLetters.map((letter) => letter.callId)).toEqual([BigInt(callId)]);
});

test("A malformed binary request is answered 400, and a request that is too large 429", async () => {
  const { send } = await start();
  for (const body of [[0xff], [0x0a, 0x05, 0x61], [0x0f]]) {
    const answer = await send("GetPayment", new Uint8Array(body));
    expect([body, answer.status, ((await answer.json()) as { code: string }).code]).toEqual([
      body,
      400,
      "invalid_argument",
    ]);
  }
  expect((await send("GetPayment", new Uint8Array(70_000))).status).toBe(429);
});
