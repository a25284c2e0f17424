import { expect, test } from "vitest";
import { LeaseStatus } from "../../../src/gen/jobgate/v1/runner_pb.ts";
import { workStream } from "../../../src/parts/work-stream/work-stream.ts";
import { named } from "../../delivery/harness.ts";
import { INVALID_CHARGES, share, startMetered, units } from "../../delivery/metered.ts";

const { DONE, INVALID_ARGUMENT } = LeaseStatus;

test.each(INVALID_CHARGES)(
  "Over Work, an ack with a charge %s is refused alone, and its lease is kept",
  async (_, charge, problem) => {
    const { connect, charges } = await startMetered({ streams: () => workStream });
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
