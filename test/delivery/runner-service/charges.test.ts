import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { makeRunnerClient } from "../../helpers/runner-client.ts";
import { paidCall, paymentIntent } from "../../store/store-fixtures.ts";
import { startDelivery } from "../harness.ts";

const CEILING = "1001";
const units = (value: string) => ({ amount: { case: "units" as const, value } });
const basisPoints = (value: number) => ({ amount: { case: "basisPoints" as const, value } });

/** A JobCall that is paid by use, with its runner, and one that is not. */
async function startBoth() {
  const { store, accept, address, connect } = await startDelivery();
  const payment = paymentIntent(1, { amount: CEILING, ceiling: CEILING });
  await store.beginPayment(payment, paidCall());
  await accept();
  const stream = await connect().subscribe();
  const [byUse, free] = [await stream.next(), await stream.next()];
  const client = makeRunnerClient({ address });
  onTestFinished(() => client.close());
  const lease = ({ callId, leaseToken }: typeof byUse) => ({ callId, leaseToken });
  const charged = async () => (await store.findPayment(payment.key))?.amount;
  return { client, byUse: lease(byUse), free: lease(free), charged };
}

test.each([
  ["above the ceiling", units("1002"), /expected at most the ceiling, 1001/],
  ["above the whole", basisPoints(10_001), /10001 basis points; expected at most 10000/],
  ["that is no number", units("1.5"), /not a whole number/],
  ["below nothing", units("-1"), /not a whole number/],
  ["that is empty", {}, /set units or basis_points/],
])(
  "A charge %s is INVALID_ARGUMENT in Ack and Extend, and nothing of the message takes effect",
  async (_, charge, problem) => {
    const { client, byUse, free, charged } = await startBoth();
    const invalid = { code: status.INVALID_ARGUMENT, message: expect.stringMatching(problem) };
    await expect(client.ack({ acks: [free, { ...byUse, charge }] })).rejects.toMatchObject(invalid);
    await expect(client.extend({ leases: [{ ...byUse, chargeSoFar: charge }] })).rejects.toMatchObject(
      invalid,
    );
    const { statuses } = await client.ack({ acks: [free, { ...byUse, charge: units("5") }] });
    expect(statuses).toEqual([LeaseStatus.DONE, LeaseStatus.DONE]);
    expect(await charged()).toBe("5");
  },
);

test("A charge for a JobCall that is not paid by use is INVALID_ARGUMENT", async () => {
  const { client, free } = await startBoth();
  await expect(client.ack({ acks: [{ ...free, charge: units("0") }] })).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    message: expect.stringContaining("it is not paid by use"),
  });
});

test("A charge for a JobCall that is finished changes nothing", async () => {
  const { client, byUse, charged } = await startBoth();
  await client.ack({ acks: [{ ...byUse, charge: basisPoints(5_000) }] });
  const again = await client.ack({ acks: [{ ...byUse, charge: units("1001") }] });
  expect(again.statuses).toEqual([LeaseStatus.NOT_FOUND]);
  expect(await charged()).toBe("500");
});
