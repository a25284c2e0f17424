import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { makeRunnerClient } from "../../helpers/runner-client.ts";
import { paidCall, paymentIntent } from "../../store/store-fixtures.ts";
import { named, startDelivery } from "../harness.ts";

const { DONE, INVALID_ARGUMENT } = LeaseStatus;
const CEILING = "1000";

const units = (value: string) => ({ amount: { case: "units", value } }) as const;
const share = (value: number) => ({ amount: { case: "basisPoints", value } }) as const;

/** Starts a runner server with two JobCalls that are paid by use. */
async function startPaidByUse() {
  const { store, accept, address, connect } = await startDelivery();
  const payments = [1, 2].map((number) =>
    paymentIntent(number, {
      amount: CEILING,
      ceiling: CEILING,
      validBefore: Math.ceil(Date.now() / 1000) + 3_600,
    }),
  );
  for (const payment of payments) await store.beginPayment(payment, paidCall());
  const client = makeRunnerClient({ address });
  return {
    connect,
    accept,
    client,
    charges: async () => Promise.all(payments.map(({ key }) => store.findPayment(key))),
  };
}

const INVALID = [
  ["above the ceiling", units("1001"), "the charge is 1001; expected at most the ceiling, 1000"],
  ["above the whole", share(10_001), "the charge is 10001 basis points; expected at most 10000"],
  ["of no number", units("1.5"), "charge.units is not a whole number"],
  ["below nothing", units("-1"), "charge.units is not a whole number"],
  ["of nothing at all", {}, "set units or basis_points"],
] as const;

test.each(INVALID)(
  "An Ack with a charge %s is refused, and every lease is kept",
  async (_, charge, problem) => {
    const { connect, client, charges } = await startPaidByUse();
    const stream = await connect().work();
    const [first, second] = [named(await stream.next()), named(await stream.next())];
    const refused = { code: status.INVALID_ARGUMENT, details: expect.stringContaining(problem) };
    await expect(client.ack({ acks: [first, { ...second, charge }] })).rejects.toMatchObject(refused);
    const extension = client.extend({ leases: [first, { ...second, chargeSoFar: charge }] });
    await expect(extension).rejects.toMatchObject(refused);
    expect((await client.ack({ acks: [{ ...first, charge: units("1000") }, second] })).statuses).toEqual([
      DONE,
      DONE,
    ]);
    expect(await charges()).toMatchObject([{ amount: "1000" }, { amount: CEILING }]);
  },
);

test.each(INVALID)(
  "Over Work, an ack with a charge %s is refused alone, and its lease is kept",
  async (_, charge, problem) => {
    const { connect, charges } = await startPaidByUse();
    const stream = await connect().work();
    const [first, second] = [named(await stream.next()), named(await stream.next())];
    expect(await stream.ask({ extends: [first, { ...second, chargeSoFar: charge }] })).toMatchObject({
      errorCode: 0,
      errorMessage: expect.stringContaining(problem),
      extends: [DONE, INVALID_ARGUMENT],
    });
    const acks = [
      { ...first, charge },
      { ...second, charge: share(2_500) },
    ];
    expect(await stream.ask({ acks })).toMatchObject({
      errorCode: 0,
      errorMessage: expect.stringContaining(`JobCall ${first.callId}: `),
      acks: [INVALID_ARGUMENT, DONE],
    });
    expect((await stream.ask({ acks: [{ ...first, charge: units("0") }] })).acks).toEqual([DONE]);
    expect(await charges()).toMatchObject([{ state: "released" }, { state: "settling", amount: "250" }]);
  },
);

test("A charge for a JobCall that is not paid by use is refused", async () => {
  const { connect, accept, client } = await startPaidByUse();
  await accept();
  const stream = await connect().work();
  const free = [await stream.next(), await stream.next(), await stream.next()].map(named)[2];
  await expect(client.ack({ acks: [{ ...free, charge: units("0") }] })).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: expect.stringContaining("it is not paid by use"),
  });
});

test("A charge for a JobCall that is finished changes nothing", async () => {
  const { connect, client, charges } = await startPaidByUse();
  const first = named(await (await connect().work()).next());
  await client.ack({ acks: [{ ...first, charge: share(5_000) }] });
  const { statuses } = await client.ack({ acks: [{ ...first, charge: units("1000") }] });
  expect(statuses).toEqual([LeaseStatus.NOT_FOUND]);
  expect((await charges())[0]).toMatchObject({ amount: "500" });
});
