import { afterEach } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { claimHeaders, type SignedClaim, signClaim } from "../helpers/caller-claim.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type ProtocolName, paysByX402 } from "./paid-gateway.ts";
import { type Answer, JOB, startRestrictedGateway } from "./restricted-gateway.ts";

/** Effects of a refused payment. */
export const NOTHING = { settles: 0, received: 0n, payments: 0, nonces: 0 };
/** Effects of an accepted payment, apart from a nonce that it may use up. */
export const ONE_PAYMENT = { settles: 1, received: 100_000n, payments: 1 };

/** Counters of an accepted payment over a protocol. */
export const accepted = (protocol: ProtocolName) => ({
  accepted: 1,
  ...(!paysByX402(protocol) && { mpp_accepted: 1 }),
});

/** Counters of requests for offers. */
const OF_OFFERS = ["payment_required", "mpp_challenge_issued"];

/** Signs a claim for the delegated job as the permitted account. */
export const sign = (options: Partial<Parameters<typeof signClaim>[0]> = {}): Promise<SignedClaim> =>
  signClaim({
    account: accounts.caller,
    serviceId: 0n,
    jobIndex: JOB.delegated,
    body: "work",
    ...options,
  });

/** One gateway for the tests of a file. Each of them begins without faults. */
export function withRestrictedGateway(options?: Parameters<typeof startRestrictedGateway>[0]) {
  const gateway = startBeforeAll(async () => {
    const started = await startRestrictedGateway(options);
    await started.tangle.permit(accounts.caller.address);
    return started;
  });
  afterEach(() => {
    gateway.facilitatorProxy.clear();
    gateway.policyRpc.clear();
  });
  return {
    gateway,

    /** Pays anew and sends it with a claim. */
    async buy(
      claim: Partial<SignedClaim>,
      { protocol, body }: { protocol?: ProtocolName; body?: string } = {},
    ): Promise<Answer> {
      const { headers } = await gateway.pay(protocol && { protocol });
      return gateway.send(JOB.delegated, { ...headers, ...claimHeaders(claim) }, body, protocol);
    },

    /** Runs `work`, and returns its effects apart from the answer, and the counters that increased. */
    async watch<Result>(act: () => Promise<Result>) {
      const [before, countersBefore] = await Promise.all([gateway.traces(), gateway.counters()]);
      const result = await act();
      const [after, counters] = await Promise.all([gateway.traces(), gateway.counters()]);
      return {
        result,
        settles: after.settles - before.settles,
        received: after.received - before.received,
        payments: after.payments - before.payments,
        nonces: after.nonces - before.nonces,
        counted: Object.fromEntries(
          Object.entries(counters)
            .map(([name, count]) => [name, count - (countersBefore[name] ?? 0)] as const)
            .filter(([name, count]) => count > 0 && !OF_OFFERS.includes(name)),
        ),
      };
    },
  };
}
