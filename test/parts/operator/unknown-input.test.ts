import { expect, onTestFinished, test } from "vitest";
import { callJson, startOperator } from "../../helpers/operator.ts";

test.each([
  ["ListPayments", { state: "PAYMENT_STATE_SETLED" }, "PAYMENT_STATE_SETLED"],
  ["ListCalls", { stat: "CALL_STATE_QUEUED" }, "stat"],
  ["ListRefunds", { state: "owed" }, "owed"],
  ["ListDeadLetters", { orgin: "x402" }, "orgin"],
  ["ListRefusedPayments", { code: "payment_invald" }, "payment_invald"],
  ["Tail", { evnts: 5 }, "evnts"],
])("%s refuses %j as INVALID_ARGUMENT, and names what it does not know", async (method, request, named) => {
  const operator = await startOperator();
  onTestFinished(() => operator.stop());
  const isStream = method === "Tail";
  const text = JSON.stringify(request);
  const frame = Buffer.concat([Buffer.alloc(5), Buffer.from(text)]);
  frame.writeUInt32BE(text.length, 1);
  const response = await fetch(`${operator.url}/jobgate.v1.OperatorService/${method}`, {
    method: "POST",
    headers: { "content-type": isStream ? "application/connect+json" : "application/json" },
    body: isStream ? frame : text,
  });
  const answer = await response.text();
  expect(answer).toContain('"code":"invalid_argument"');
  expect(answer).toContain(named);
});

test("A misspelt method is refused as the API refuses, with the name that was meant", async () => {
  const operator = await startOperator();
  onTestFinished(() => operator.stop());
  expect(await callJson(operator.url, "ListPayment")).toEqual({
    status: 501,
    answer: {
      code: "unimplemented",
      message: "jobgate.v1.OperatorService has no method ListPayment; did you mean ListPayments?",
    },
  });
  expect((await callJson(operator.url, "")).status).toBe(501);
});

test("An error code that is far from every known code is refused with all of them", async () => {
  const operator = await startOperator();
  onTestFinished(() => operator.stop());
  const messageFor = async (code: string) =>
    (await callJson(operator.url, "ListRefusedPayments", { code })).answer.message;
  expect(await messageFor("payment_invald")).toBe(
    'code: "payment_invald" is not an error code; did you mean "payment_invalid"?',
  );
  expect(await messageFor("zzz")).toMatch(/^code: "zzz" is not an error code; expected one of .*queue_full/);
});
