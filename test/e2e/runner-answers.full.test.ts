import { expect, onTestFinished, test } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { until } from "../helpers/until.ts";
import { RUNNERS } from "./example-runners.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const INDEX = 7;

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    // Leaves the route's job to the runner of the test.
    jobIds: [0n],
    edit: (config) => `${config}
[[jobs]]
route = "PUT /answers/{status}"
job_index = ${INDEX}
price_wei = "1000000000000000"
answer = "result"
max_wait_secs = 30
`,
  }),
);

/** Runners that can give a result its status and headers: a program of run-each has none. */
const ANSWERING = Object.entries(RUNNERS).filter(([name]) => name !== "run-each");

test.for(ANSWERING)(
  "A client that bought a route's job from the %s runner gets the runner's status, headers and body",
  async ([, prepare]) => {
    const { command, args, cwd } = await prepare();
    const { jobgate } = gateway;
    const env = { ...process.env, JOBGATE_RUNNER: jobgate.runnerAddress };
    const child = spawnTethered({ command, args, cwd, env });
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await processEnded(child);
    });
    const network = `eip155:${parts.anvil.chainId}` as const;
    const pay = payingFetch({ account: accounts.payer, network, spendControls: false });
    const buy = (status: number) =>
      pay(`${jobgate.x402Url}/answers/${status}?a=%41&b`, { method: "PUT", body: "work" });

    for (const status of [201, 404]) {
      const answer = await buy(status);
      expect([answer.status, await answer.text()]).toEqual([status, "krow"]);
      expect(answer.headers.get("x-asked")).toBe(`PUT /answers/${status}?a=%41&b`);
      expect(answer.headers.has("payment-response")).toBe(true);
    }

    const refused = await buy(600);
    expect(refused.status).toBe(202);
    const { call_id } = (await refused.json()) as { readonly call_id: number };
    const operator = createOperatorClient({ address: { url: jobgate.operatorUrl } });
    const { deadLetters } = await until(async () => {
      const page = await operator.listDeadLetters({});
      return page.deadLetters.some(({ callId }) => Number(callId) === call_id) ? page : undefined;
    });
    const letter = deadLetters.find(({ callId }) => Number(callId) === call_id);
    expect(letter?.reason).toContain("status is 600: expected 200 to 599");
  },
);
