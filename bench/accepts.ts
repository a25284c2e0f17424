import { signWebhook, webhookPath } from "../src/webhooks/auth/schemes.ts";
import { readWebhookEndpoints, startTree } from "./gateway.ts";
import { type Contestant, compete, type LoadResult, loadRow, withBaseline } from "./load.ts";
import type { Figure } from "./summary.ts";
import { THIS_TREE, type Tree } from "./trees.ts";

export const CONNECTIONS = 64;
const BODY = "x".repeat(256);

const ENDPOINTS = `
[[webhooks.endpoints]]
path = "/hooks/github"
job_id = 1
auth = "github"
secret = "0123456789abcdef0123456789abcdef"
dedupe = false
`;

/** Measures durable webhook accepts and 402 answers, beside a bare node:http server that answers 202. */
export async function benchAccepts(trees: readonly Tree[]): Promise<readonly Figure[]> {
  return withBaseline("bare-http", ([bareUrl], barePid) =>
    withBaseline("one-commit-a-request", async ([commitUrl], commitPid) => {
      const gateways = await Promise.all(trees.map((tree) => startTree(tree, { endpoints: ENDPOINTS })));
      try {
        const contestants = [
          hook("bare node:http", barePid, `${bareUrl}/hooks/bench`),
          hook("one commit a request", commitPid, `${commitUrl}/hooks/bench`),
        ];
        for (const { name, jobgate } of gateways) {
          const [github] = (await readWebhookEndpoints(jobgate)).filter(({ auth }) => auth.mode === "github");
          if (github === undefined) throw new Error("the configuration has no endpoint for GitHub");
          contestants.push(
            hook(`${name}, durable`, jobgate.pid, `${jobgate.webhooksUrl}/hooks/bench`),
            hook(
              `${name}, durable, HMAC`,
              jobgate.pid,
              `${jobgate.webhooksUrl}${webhookPath(github)}`,
              signWebhook(github, Buffer.from(BODY)),
            ),
            offer(`${name}, 402`, jobgate.pid, `${jobgate.x402Url}/x402/jobs/1/0`),
          );
        }
        const results = await compete(contestants);
        const [bare] = results as [LoadResult, ...LoadResult[]];
        console.log(`\nWebhook accepts and 402 answers, ${BODY.length} B, ${CONNECTIONS} in flight`);
        console.table(
          results.map((result, i) => ({
            "": contestants[i]?.name,
            ...loadRow(result),
            "CPU of bare": (result.cpuMicros / bare.cpuMicros).toFixed(1),
          })),
        );
        const cpuOfBare = (name: string) => {
          const i = contestants.findIndex((contestant) => contestant.name === `${THIS_TREE.name}, ${name}`);
          return (results[i]?.cpuMicros ?? Number.NaN) / bare.cpuMicros;
        };
        return ["durable", "durable, HMAC", "402"].map(
          (name): Figure => ({
            name: `CPU of an answer (${name}), of bare node:http`,
            ratio: cpuOfBare(name),
            better: "lower",
          }),
        );
      } finally {
        await Promise.all(gateways.map(({ jobgate }) => jobgate.stop()));
      }
    }),
  );
}

function hook(name: string, pid: number, url: string, headers: Record<string, string> = {}): Contestant {
  return {
    name,
    pids: [pid],
    target: { urls: [url], headers, body: BODY, status: 202, connections: CONNECTIONS },
  };
}

function offer(name: string, pid: number, url: string): Contestant {
  return { name, pids: [pid], target: { urls: [url], body: BODY, status: 402, connections: CONNECTIONS } };
}
