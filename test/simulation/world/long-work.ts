import { Client } from "./client.ts";
import { type Laws, PRICE } from "./laws.ts";
import type { Customer, Part, Surroundings } from "./part.ts";
import type { Simulation } from "./simulation.ts";

const NUMBERS = [2, 6] as const;
/** First of the numbers that these clients have. */
const FIRST = 1_700;
/** End of the body of work that outlasts its payment. */
export const LONG = "long work";
const WORK_MS = 120_000;
const REPORT_MS = 1_500;
/** Above the least charge. */
const FIRST_REPORT = PRICE / 8n;
/** Odd, so that no report is twice another. */
const NEXT_REPORT = 10_002n;
/** Time before an authorization's end at which a job that runs is charged, and in which that succeeds. */
const CHARGED_MS = 10_000 + 10_000;

/** Clients whose jobs still run when their payments end, and are charged what was reported until then. */
export class LongWork implements Part {
  readonly #count: number;

  constructor(simulation: Simulation) {
    this.#count = simulation.pick("clients with long work", NUMBERS);
  }

  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws, replicas } = surroundings;
    laws.atEnd(() => checkEnd(surroundings));
    laws.onCharge = () => {
      if (simulation.fault("a gateway is killed as one charges", 0.5))
        simulation.pick("killed as one charges", replicas).restart();
    };
    return Array.from({ length: this.#count }, (_, i) => {
      const name = `patient ${i}`;
      const body = `${name}: ${LONG}`;
      return new Client(surroundings, {
        ...{ name, number: FIRST + i, path: "/x402/jobs/1/1", body, charge: "used" },
      });
    });
  }
}

export function isLong(body: string): boolean {
  return body.endsWith(LONG);
}

/** Works until somebody else has the JobCall, and reports the charge so far. */
export function workLong(
  { simulation, laws }: { readonly simulation: Simulation; readonly laws: Laws },
  body: string,
  runner: {
    /** Extends the lease. */
    readonly report: (units: bigint, onAnswer: (isHeld: boolean) => void) => void;
    readonly finish: (units: bigint) => void;
  },
): void {
  const startedAt = simulation.now;
  let units = FIRST_REPORT + 1n;
  const goOn = () => {
    laws.asks(body, units);
    if (simulation.now - startedAt > WORK_MS) {
      runner.finish(units);
      return;
    }
    runner.report(units, (isHeld) => {
      units += NEXT_REPORT;
      if (isHeld) simulation.at(REPORT_MS, simulation.world, goOn);
    });
  };
  simulation.at(REPORT_MS, simulation.world, goOn);
}

function checkEnd({ simulation, laws }: Surroundings): void {
  for (const payment of laws.payments) {
    const { charge, ends, client } = payment;
    const wasInTime = ends * 1000 - CHARGED_MS > simulation.healedAtMs;
    // A gateway whose clock was ahead has given it up.
    if (charge === "used" && wasInTime && laws.areClocksRight && laws.stateOf(payment) === "failed")
      simulation.break(`a job of ${client} ran, and its charge came too late`);
  }
}
