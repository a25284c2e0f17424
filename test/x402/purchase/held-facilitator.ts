import type { ServerResponse } from "node:http";
import { onTestFinished } from "vitest";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { listenHttp } from "../../helpers/http-listener.ts";
import type { TestGateway } from "../gateway-harness.ts";

export const LIMITS = { maxUnpaidPerSecondPerClient: 1_000, maxVerifiesPerClient: 8, maxVerifies: 64 };
export const LOOPBACK = { address: "127.0.0.1", prefixBits: 32, family: "ipv4" } as const;
export const PAYERS = 12;

/** Starts a facilitator that answers no verification before `release` is called. */
export async function startHeldFacilitator() {
  const held: ServerResponse[] = [];
  let arrived = () => {};
  const listener = await listenHttp({
    handler(_request, response) {
      held.push(response);
      arrived();
    },
  });
  onTestFinished(() => listener.stop());
  return {
    url: listener.url,
    held,
    onArrival(callback: () => void) {
      arrived = callback;
    },
    release() {
      for (const response of held) response.writeHead(500).end();
    },
  };
}

type Send = (gateway: TestGateway, payment: Payment, n: number) => Promise<number>;
type Payment = Awaited<ReturnType<typeof signV2Payment>>;

const forwarded: Send = async (gateway, { headers }, n) =>
  (await gateway.post({ ...headers, "x-forwarded-for": `6.6.6.6, 203.0.113.${n}` })).status;

/** Sends payments of many clients at once, each forwarded from an address of its own. @returns their statuses */
export async function payAtOnce(
  gateway: TestGateway,
  facilitator: Awaited<ReturnType<typeof startHeldFacilitator>>,
  send = forwarded,
): Promise<number[]> {
  const { v2 } = await requestOffer(gateway.jobUrl());
  const payments = await Promise.all(
    Array.from({ length: PAYERS }, () => signV2Payment({ offer: v2, account: accounts.payer })),
  );
  let answered = 0;
  const releaseOnceAllAreIn = () => {
    if (answered + facilitator.held.length === PAYERS) facilitator.release();
  };
  facilitator.onArrival(releaseOnceAllAreIn);
  return Promise.all(
    payments.map(async (payment, n) => {
      const status = await send(gateway, payment, n);
      answered++;
      releaseOnceAllAreIn();
      return status;
    }),
  );
}

export const count = (statuses: readonly number[], status: number) =>
  statuses.filter((it) => it === status).length;
