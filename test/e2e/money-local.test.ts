import { describe, expect, it, onTestFinished } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV1Payment } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { localSettler } from "./local-facilitator.ts";
import { SET_UPS, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
/** The facilitator of the other tests is not asked. */
const ONE_OWN_SETTLEMENT = { ...ONE_PAID_JOB, verifyCalls: 0, settleCalls: 0 };

describe.each(SET_UPS)("jobgate settles itself, with %s", (setUp) => {
  const settler = startBeforeAll(async () => ({
    ...(await localSettler({ anvil: parts.anvil })),
    stop: () => Promise.resolve(),
  }));
  const gateway = startBeforeAll(() => startPaidGateway({ parts, setUp, edit: settler.edit }));

  it("A version 2 payment buys one job, also when it is sent again", async () => {
    const payment = await gateway.sign();
    const expectChanges = await watchLedger(parts, gateway);
    const body = `v2 ${setUp}`;
    const first = await gateway.send(payment, { body });
    expect(first).toMatchObject(ACCEPTED);
    expect(await gateway.send(payment, { body })).toMatchObject({ status: 202, call_id: first.call_id });
    await gateway.waitForJobs(body);
    await expectChanges(ONE_OWN_SETTLEMENT);
  });

  it("Operators see what the account that pays for gas held when it was last read", async () => {
    const operator = createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });
    const { holdings } = await operator.listHoldings({});
    expect(holdings).toMatchObject(
      settler.addresses.map((account) => ({
        ...{ pays: "settlements", network: `eip155:${parts.anvil.chainId}`, account, symbol: "ETH" },
        amount: expect.stringMatching(/^[1-9][0-9]*$/),
      })),
    );
  });

  it("A version 1 payment buys one job", async () => {
    const offer = await requestOffer(gateway.urlOf());
    const payment = await signV1Payment({ offer: offer.v1, account: accounts.payer });
    const expectChanges = await watchLedger(parts, gateway);
    const body = `v1 ${setUp}`;
    expect(await gateway.send(payment, { body })).toMatchObject({ status: 202 });
    await gateway.waitForJobs(body);
    await expectChanges(ONE_OWN_SETTLEMENT);
  });

  it("Without funds for gas, a payment is refused before it is charged", async () => {
    const { edit } = await localSettler({ anvil: parts.anvil, fundsWei: 10n ** 15n });
    const poor = await startPaidGateway({ parts, setUp, edit });
    onTestFinished(() => poor.stop());
    expect(await poor.send(await poor.sign(), {})).toMatchObject({
      status: 503,
      code: "settler_unfunded",
      charged: false,
    });
  });
});
