import { expect, it, onTestFinished } from "vitest";
import type { OperatorAddition } from "../../../src/operator/methods.ts";
import { callJson, startOperator } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const operator = startBeforeAll(() => startOperator({ additions: () => [] }));

it.each(["ListRefunds", "ListCallbacks", "ListMovements", "SumMovements"])(
  "%s answers UNIMPLEMENTED in a build without its part",
  async (method) => {
    expect(await callJson(operator.url, method)).toEqual({
      status: 501,
      answer: {
        code: "unimplemented",
        message: `This build of jobgate lacks the part that answers ${method}.`,
      },
    });
  },
);

it("A call is shown without what absent parts add", async () => {
  const callId = await operator.deadLetter();
  const { status, answer } = await callJson(operator.url, "GetCall", { call_id: callId });
  expect([status, answer.callbacks]).toEqual([200, []]);
});

it("No call is answered where two parts have one method", async () => {
  const addition: OperatorAddition = {
    loadApi: async () => ({ methods: { listMovements: () => ({}) } }),
  };
  const twice = await startOperator({ additions: () => [addition, addition] });
  onTestFinished(() => twice.stop());
  expect((await callJson(twice.url, "ListMovements")).status).toBe(500);
  expect(JSON.stringify(twice.errors)).toContain(
    "two parts of this build have the operator's method ListMovements; expected one",
  );
});
