import { expect, onTestFinished, test } from "vitest";
import { startOperator } from "./harness.ts";

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
