import { expect, test } from "vitest";
import { checkContracts } from "../../../src/parts/callers/online-check.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { peersConfig } from "../../x402/peers-config.ts";

const NOBODY = "0x000000000000000000000000000000000000dEaD";

const parts = startBeforeAll(startPaidParts);

async function problems(chainRpcUrl: string, chainContract: `0x${string}`, own = false) {
  const restriction = {
    authMode: "payer_is_caller",
    chainRpcUrl,
    chainContract,
    permissionCacheSecs: 0,
  } as const;
  const policy = { serviceId: 1n, jobIndex: 3, invocationMode: "restricted_paid", restriction } as const;
  const open = { serviceId: 1n, jobIndex: 2, invocationMode: "public_paid" } as const;
  const { anvil, usdc, facilitator } = parts;
  const jobs = [open, { serviceId: 1n, jobIndex: 3, ...(own && { policy }) }];
  const config = peersConfig({ anvil, usdc, facilitatorUrl: facilitator.url, jobs });
  const found = await checkContracts({ ...config, jobPolicies: [open, policy] });
  return found.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

test("A contract on its chain is not a problem", async () => {
  expect(await problems(parts.anvil.rpcUrl, parts.usdc.address)).toEqual([]);
});

test("A contract at an address without code is reported where the job's policy is", async () => {
  const message = "chain_contract: has no contract on this chain; expected the contract that permits callers";
  expect(await problems(parts.anvil.rpcUrl, NOBODY)).toEqual([`x402.job_policies.1.${message}`]);
  expect(await problems(parts.anvil.rpcUrl, NOBODY, true)).toEqual([`jobs.1.${message}`]);
});

test("An RPC that does not answer is reported", async () => {
  const [found] = await problems("http://127.0.0.1:9", parts.usdc.address);
  expect(found).toMatch(/^x402.job_policies.1.chain_rpc_url: does not answer as a chain's RPC/);
});
