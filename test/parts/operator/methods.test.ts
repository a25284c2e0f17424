import { expect, it } from "vitest";
import { callJson, startOperator } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const operator = startBeforeAll(() => startOperator({ additions: () => [] }));

it.each(["ListRefunds", "ListCallbacks", "ListMovements"])(
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
  const callId = await operator.bury();
  const { status, answer } = await callJson(operator.url, "GetCall", { call_id: callId });
  expect([status, answer.callbacks]).toEqual([200, []]);
});
