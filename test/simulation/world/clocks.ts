import type { Customer, Part, Surroundings } from "./part.ts";
import type { Replica } from "./replica.ts";
import { TROUBLE_MS } from "./simulation.ts";

const HOUR_MS = 3_600_000;
const MEAN_STEP_MS = 25_000;

/** Wall clocks of gateways, which jump by up to an hour until everything works again. */
export class WrongClocks implements Part {
  customers(surroundings: Surroundings): readonly Customer[] {
    const { simulation, laws, replicas } = surroundings;
    laws.leases.areClocksRight = false;
    for (const replica of replicas) {
      step(replica, surroundings);
      simulation.at(TROUBLE_MS, simulation.world, () => replica.setClock(0));
    }
    return [];
  }
}

function step(replica: Replica, surroundings: Surroundings): void {
  const { simulation } = surroundings;
  simulation.at(simulation.random("time to a step") * 2 * MEAN_STEP_MS, simulation.world, () => {
    const aheadMs = (simulation.random("clock") * 2 - 1) * HOUR_MS;
    if (simulation.now >= TROUBLE_MS) return;
    if (simulation.fault("a clock is set", 1)) replica.setClock(aheadMs);
    step(replica, surroundings);
  });
}
