import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { named } from "../harness.ts";
import { CEILING, INVALID_CHARGES, share, startMetered, units } from "../metered.ts";

const { DONE } = LeaseStatus;
test.each(INVALID_CHARGES)(
  "An Ack with a charge %s is refused, and every lease is kept",
  async (_, charge, problem) => {
    const { connect, client, charges } = await startMetered();
    const stream = await connect().subscribe();
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

test("A charge for a JobCall that is not metered is refused", async () => {
  const { connect, accept, client } = await startMetered();
  await accept();
  const stream = await connect().subscribe();
  const free = [await stream.next(), await stream.next(), await stream.next()].map(named)[2];
  await expect(client.ack({ acks: [{ ...free, charge: units("0") }] })).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    details: expect.stringContaining("it is not metered"),
  });
});

test("A charge for a JobCall that is finished changes nothing", async () => {
  const { connect, client, charges } = await startMetered();
  const first = named(await (await connect().subscribe()).next());
  await client.ack({ acks: [{ ...first, charge: share(5_000) }] });
  const { statuses } = await client.ack({ acks: [{ ...first, charge: units("1000") }] });
  expect(statuses).toEqual([LeaseStatus.NOT_FOUND]);
  expect((await charges())[0]).toMatchObject({ amount: "500" });
});
