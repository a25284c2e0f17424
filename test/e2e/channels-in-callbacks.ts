import { expect, test } from "vitest";
import { callbacksOf } from "../parts/callbacks/store/store-contract.ts";
import { channelsOf, inChannel } from "../parts/channels/store/store-contract.ts";
import type { Given } from "../store/contract/given.ts";
import { claimOne } from "../store/store-fixtures.ts";

/** Whom calls that are paid by vouchers call back, and what they earn, in every kind of store. */
export function describeChannelsInCallbacks(given: Given): void {
  const { want, told } = callbacksOf(given);
  const { buy, count } = channelsOf(given);

  test("A call that is paid by a voucher has callbacks about its settled payment and about its end, once", async () => {
    await want(["payment.settled", "call.finished"]);
    await buy(inChannel(1, 10, { deposit: "100" }));
    await given.store.ack(await claimOne(given.store));
    await count();
    const before = (await told()).length;
    await buy(inChannel(2, 20));
    expect((await told()).slice(before)).toEqual(["payment.settled"]);
    await given.store.ack(await claimOne(given.store));
    expect((await told()).slice(before + 1)).toEqual(["call.finished succeeded"]);
  });

  test("A call that is paid by a voucher is revenue of its price, and not of the deposit", async () => {
    await buy(inChannel(1, 10, { deposit: "100" }));
    await count();
    await buy(inChannel(2, 20));
    const revenue = await given.store.revenue({ since: 0, bucketMs: 3_600_000 });
    expect(revenue).toMatchObject([{ amount: 20n, payments: 2 }]);
  });
}
