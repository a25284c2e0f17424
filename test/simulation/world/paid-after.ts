import { Client } from "./client.ts";
import type { SignedPayment } from "./laws.ts";
import { LONG } from "./long-work.ts";
import type { Customer, Part, Shop, Surroundings } from "./part.ts";
import type { Simulation } from "./simulation.ts";

const NUMBERS = [3, 9] as const;
/** First of the numbers that these clients have. */
const FIRST = 1_900;
const JOB = 5;
const NAME = "trier";

/** Clients whose jobs are charged once they succeeded. Some jobs outlast their payments. */
export class PaidAfter implements Part {
  readonly #count: number;

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("clients who are charged after", NUMBERS);
  }

  configure(shop: Shop): Shop {
    const { x402 } = shop;
    return { ...shop, x402: withLateJob(x402, JOB) };
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    chargeSuccessAlone(surroundings, ({ client }) => client.startsWith(NAME));
    return Array.from({ length: this.#count }, (_, i) => {
      const name = `${NAME} ${i}`;
      const work = i % 3 === 2 ? LONG : "work";
      return new Client(surroundings, {
        ...{
          name,
          number: FIRST + i,
          path: `/x402/jobs/1/${JOB}`,
          body: `${name}: ${work}`,
          charge: "after",
        },
      });
    });
  }
}

/** Sells another job, which is charged after it ran. */
export function withLateJob(x402: Shop["x402"], jobIndex: number): Shop["x402"] {
  const job = { serviceId: 1n, jobIndex, charge: ["after"], maxRunSecs: 20 } as const;
  const jobPricing = new Map([...x402.jobPricing, [`1/${jobIndex}`, 1_000_000_000_000_000n] as const]);
  return { ...x402, jobs: [...(x402.jobs ?? []), job], jobPricing };
}

/** Breaks a law if a payment is settled for a job that did not succeed, or stays open after its job has ended. */
export function chargeSuccessAlone(
  { simulation, laws }: Pick<Surroundings, "simulation" | "laws">,
  isAfter: (payment: SignedPayment) => boolean,
): void {
  laws.onSettle((payment) => {
    if (isAfter(payment) && laws.endOf(payment) !== "succeeded")
      simulation.break(`a facilitator is asked to settle a job of ${payment.client} that did not succeed`);
  });
  laws.atEnd(() => {
    for (const payment of laws.payments.filter(isAfter)) {
      const [state, end] = [laws.stateOf(payment), laws.endOf(payment)];
      const isRight = end === "succeeded" ? state === "settled" || state === "failed" : state === "released";
      if (state !== undefined && !isRight)
        simulation.break(`a job of ${payment.client} is ${end ?? "not done"}, and its payment ${state}`);
    }
  });
}
