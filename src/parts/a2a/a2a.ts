import type { X402Config } from "../../config/config.ts";
import type { ShopAddition, X402Part } from "../../x402/part.ts";
import type { Services } from "../../x402/services.ts";
import { A2aRoute } from "./a2a-route.ts";
import { A2aServer, MAX_WAIT_MS } from "./a2a-server.ts";
import { agentCard } from "./agent-card.ts";
import { a2aTable } from "./config.ts";
import { KeptInputs } from "./kept-inputs.ts";
import { PaidTasks } from "./paid-tasks.ts";
import { Purchases } from "./purchases.ts";
import { TASKS } from "./store/module.ts";
import { TaskIds } from "./task-ids.ts";
import { TaskSales } from "./task-sales.ts";
import { Tasks } from "./tasks.ts";

/** Settings that tests change. */
interface Settings {
  /** Longest wait of a request for the end of a task. */
  readonly maxWaitMs?: number;
  /** Most bytes of inputs that are kept until they are paid for. */
  readonly maxInputBytes?: number;
}

/** A2A under the current configuration. The inputs of unpaid tasks outlive a reload. */
export class A2a implements X402Part {
  readonly #services: Services;
  readonly #maxWaitMs: number;
  readonly #inputs: KeptInputs;

  constructor(services: Services, { maxWaitMs = MAX_WAIT_MS, maxInputBytes }: Settings = {}) {
    this.#services = services;
    this.#maxWaitMs = maxWaitMs;
    this.#inputs = new KeptInputs(maxInputBytes);
  }

  open(x402: X402Config): ShopAddition | undefined {
    if (a2aTable.in(x402) === undefined) return undefined;
    const { publicUrl, jobs = [] } = x402;
    const maxBodyBytes = Math.max(x402.maxBodyBytes, ...jobs.flatMap((job) => job.maxBodyBytes ?? []));
    const services = this.#services;
    const inputs = this.#inputs;
    const sales = new TaskSales();
    const card = `${publicUrl}/.well-known/agent-card.json`;
    return {
      feature: {
        guide: `A2A agents buy each job as a skill of the agent at \`${card}\`, and pay by x402 in the metadata of messages.`,
        service: { name: "A2A", endpoint: card, version: "1.0" },
        links: { a2a: `${publicUrl}/a2a`, agentCard: card },
      },
      pageHeaders: {
        sent: ["A2A-Version", "A2A-Extensions", "X-A2A-Extensions"],
        read: ["A2A-Extensions", "X-A2A-Extensions"],
      },
      terms: sales,
      routes: (shop) => {
        const ids = new TaskIds(services.tokens, services.clock);
        const paid = new PaidTasks(services, shop);
        const tasks = new Tasks({ services, ids, ledger: services.store.of(TASKS), inputs, paid });
        const purchases = new Purchases({ services, shop, tasks, ids, inputs, sales });
        const server = new A2aServer({ services, purchases, tasks, paid, maxWaitMs: this.#maxWaitMs });
        return [
          ["/a2a", new A2aRoute(server, maxBodyBytes).handlers],
          ["/.well-known/agent-card.json", agentCard(shop)],
        ];
      },
    };
  }
}
