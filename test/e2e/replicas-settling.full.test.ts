import type { PaymentPayload } from "@x402/core/types";
import { generatePaymentId } from "@x402/extensions/payment-identifier";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { withIdentifier } from "../helpers/clients.ts";
import { parseExposition, type Sample } from "../helpers/exposition.ts";
import { type Postgres, startPostgres } from "../helpers/postgres.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { type PaidGateway, SET_UPS, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";

/** Several rounds of every replica's reconciler. */
const SETTLE_MS = 2_500;
const SLOW_PAYMENTS = 3;
/** Purchases that all replicas are asked for at once. */
const RACES = 3;

let parts: PaidParts;
let postgres: Postgres;

beforeAll(async () => {
  [parts, postgres] = await Promise.all([startPaidParts(), startPostgres()]);
});
afterAll(async () => {
  await postgres?.stop();
  await parts?.stop();
});

describe.each(SET_UPS)("Three replicas on one Postgres, with %s", (setUp) => {
  let replicas: PaidGateway[];

  beforeAll(async () => {
    const storeUrl = await postgres.createDatabase();
    replicas = await Promise.all(
      Array.from({ length: 3 }, () =>
        startPaidGateway({ parts, setUp, asProcess: true, storeUrl, facilitatorTimeoutSecs: 50 }),
      ),
    );
  });
  afterAll(async () => {
    await Promise.all((replicas ?? []).map((replica) => replica.stop()));
  });

  const settles = () =>
    replicas.reduce((sum, { facilitatorProxy }) => sum + facilitatorProxy.count("/settle"), 0);

  it("While one replica waits for a slow settlement, the others leave the payment to it, and its client gets the job", async () => {
    const [first] = replicas as [PaidGateway];
    for (let number = 0; number < SLOW_PAYMENTS; number++) {
      const payment = await first.sign();
      const body = `slow ${number}`;
      const before = settles();
      // Before the money moves, and after: a reconciler that looks at the chain has seen it then.
      const when = number % 2 === 0 ? "delay-request" : "delay-answer";
      first.facilitatorProxy.add({ path: "/settle", times: 1, fault: { kind: when, ms: SETTLE_MS } });
      const answer = await first.send(payment, { body });
      expect(answer).toMatchObject(ACCEPTED);
      expect(settles() - before).toBe(1);
      await expect.poll(() => replicas.flatMap((replica) => replica.jobsWith(body)).length).toBe(1);
      // With the same access token.
      for (const replica of replicas) expect(await replica.send(payment, { body })).toEqual(answer);
    }
  });

  it("Of payments under one identifier that all replicas get at once, one is settled, and all get its outcome", async () => {
    for (let number = 0; number < RACES; number++) {
      const id = generatePaymentId();
      const body = `identified ${number}`;
      const edit = (payload: PaymentPayload) => withIdentifier(payload, id);
      const payments = await Promise.all(
        Array.from({ length: 4 }, () => replicas.map((replica) => replica.sign({ edit }))).flat(),
      );
      const [settledBefore, paidBefore] = [settles(), await parts.usdc.balanceOf(accounts.payTo.address)];
      const answers = await Promise.all(
        payments.map((payment, i) =>
          (replicas[i % replicas.length] as PaidGateway).sendUntilDecided(payment, { body }),
        ),
      );
      expect(answers[0]).toMatchObject(ACCEPTED);
      expect(answers).toEqual(answers.map(() => answers[0]));
      expect(settles() - settledBefore).toBe(1);
      expect((await parts.usdc.balanceOf(accounts.payTo.address)) - paidBefore).toBe(AMOUNT);
      await expect.poll(() => replicas.flatMap((replica) => replica.jobsWith(body)).length).toBe(1);
    }
  });

  it("Afterwards each settlement is counted and logged once, over all replicas", async () => {
    const total = async (metric: string) => {
      const samples = await Promise.all(replicas.map(({ jobgate }) => samplesOf(jobgate.operatorUrl)));
      return samples.flat().reduce((sum, { name, value }) => (name === metric ? sum + value : sum), 0);
    };
    await expect.poll(() => total("jobgate_payments_total")).toBe(SLOW_PAYMENTS + RACES);
    await expect
      .poll(() => total("jobgate_payment_amount_total"))
      .toBe((SLOW_PAYMENTS + RACES) * Number(AMOUNT));
    const logged = () => replicas.flatMap(({ jobgate }) => jobgate.logs.filter(isOfSettlement));
    await expect.poll(logged).toHaveLength(SLOW_PAYMENTS + RACES);
  });
});

const isOfSettlement = (line: string) => line.includes("payment settled");

async function samplesOf(operatorUrl: string): Promise<Sample[]> {
  const text = await (await fetch(`${operatorUrl}/metrics`)).text();
  return parseExposition(text).flatMap(({ samples }) => samples);
}
