import { describe, expect, it } from "vitest";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { claimHeaders, signClaim } from "../../helpers/caller-claim.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PERMISSIONS, startTestGateway } from "../../x402/gateway-harness.ts";

/** EVM code that returns 1 for every call. */
const ALWAYS_TRUE = "0x600160005260206000f3";

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startTestGateway({
    config: { facilitatorUrl: parts.facilitator.url },
    chainRpcUrl: parts.anvil.rpcUrl,
  }),
);

async function counters(): Promise<Record<string, number>> {
  const response = await fetch(`${gateway.url}/x402/stats`);
  return ((await response.json()) as { counters: Record<string, number> }).counters;
}

/** Returns the change of each counter that an action changes. */
async function moved(deed: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await counters();
  await deed();
  const changes = Object.entries(await counters()).map(([name, count]) => [
    name,
    count - (before[name] ?? 0),
  ]);
  return Object.fromEntries(changes.filter(([, count]) => count !== 0));
}

describe("The counters of the gateway count", () => {
  it("policy_denied, policy_error, and replay_denied with policy_denied, for a restricted job", async () => {
    const claim = async () => {
      const signed = await signClaim({ account: accounts.caller, serviceId: 1n, jobIndex: 1, body: "work" });
      return claimHeaders(signed);
    };
    const buy = async (headers: Readonly<Record<string, string>>) =>
      gateway.post({ ...(await gateway.sign(1)).headers, ...headers }, { job: 1 });
    const counted = async (headers: Readonly<Record<string, string>>) => {
      const { payment_required: _, ...counts } = await moved(() => buy(headers));
      return counts;
    };
    expect(await counted({})).toEqual({ policy_denied: 1 });
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: "0x" });
    expect(await counted(await claim())).toEqual({ policy_error: 1 });
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: ALWAYS_TRUE });
    const used = await claim();
    expect(await counted(used)).toEqual({ accepted: 1 });
    expect(await counted(used)).toEqual({ policy_denied: 1, replay_denied: 1 });
  });

  it("auth_dry_run_allowed, _denied and _error", async () => {
    const dryRun = async (job: number) => {
      const claim = await signClaim({ account: accounts.caller, serviceId: 1n, jobIndex: job, body: "" });
      return fetch(`${gateway.jobUrl(job)}/auth-dry-run`, { method: "POST", headers: claimHeaders(claim) });
    };
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: ALWAYS_TRUE });
    expect(await moved(() => dryRun(0))).toEqual({ auth_dry_run_allowed: 1 });
    expect(await moved(() => dryRun(1))).toEqual({ auth_dry_run_allowed: 1 });
    expect(await moved(() => dryRun(2))).toMatchObject({ auth_dry_run_denied: 1 });
    await parts.anvil.client.setCode({ address: PERMISSIONS, bytecode: "0x" });
    expect(await moved(() => dryRun(1))).toMatchObject({ auth_dry_run_error: 1 });
  });
});

it("A dry run refuses the query string that the paid request would be refused for", async () => {
  const answer = await fetch(`${gateway.jobUrl()}/auth-dry-run?page=2`, { method: "POST" });
  expect([answer.status, await answer.json()]).toMatchObject([
    400,
    { code: "query_not_allowed", allowed: false },
  ]);
});

it("A job has no dry run at another protocol's path, or below it", async () => {
  for (const path of [
    "/mpp/jobs/1/0/auth-dry-run",
    "/x402/jobs/1/0/auth-dry-run/",
    "/x402/jobs/01/0/auth-dry-run",
  ])
    expect((await fetch(`${gateway.url}${path}`, { method: "POST" })).status).toBe(404);
});

it("A page may ask for a dry run, with the headers of a caller", async () => {
  const { status, headers } = await fetch(`${gateway.jobUrl()}/auth-dry-run`, {
    method: "OPTIONS",
    headers: { origin: "https://shop.example", "access-control-request-method": "POST" },
  });
  expect([status, headers.get("access-control-allow-methods")]).toEqual([204, "POST"]);
  const names = ["", "-SIG", "-NONCE", "-EXPIRY"];
  expect(headers.get("access-control-allow-headers")?.split(", ")).toEqual(
    expect.arrayContaining([
      "X-HTTP-TARGET",
      ...names.flatMap((name) => [`X-CHAIN-CALLER${name}`, `X-TANGLE-CALLER${name}`]),
    ]),
  );
});
