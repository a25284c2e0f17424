import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { eventRow } from "../../src/commands/event-text.ts";
import { EventSchema, RefundState } from "../../src/gen/jobgate/v1/operator_pb.ts";

it.each([
  [RefundState.OWED, "refund owed"],
  [RefundState.REFUNDED, "refunded"],
  [RefundState.REFUND_FAILED, "refund failed"],
])("A refund in state %i is shown as: %s", (state, kind) => {
  const event = create(EventSchema, {
    what: { case: "refundChanged", value: { state, amountText: "1 USDC", payer: "0x1", reason: "blocked" } },
  });
  expect(eventRow(event, { job: () => "" }).slice(1)).toEqual([kind, "1 USDC to 0x1; blocked"]);
});
