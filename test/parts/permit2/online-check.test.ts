import { x402UptoPermit2ProxyAddress } from "@x402/evm";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { checkX402Peers } from "../../../src/x402/online-check.ts";
import { borrowAnvil } from "../../helpers/anvil.ts";
import { startFacilitator } from "../../helpers/facilitator.ts";
import { installPermit2 } from "../../helpers/permit2.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { deployUsdc, type Token } from "../../helpers/usdc.ts";
import { type PeersOptions, peersConfig } from "../../x402/peers-config.ts";
import { METHODS } from "./payments.ts";

const anvil = startBeforeAll(borrowAnvil);
const facilitator = startBeforeAll(() => startFacilitator({ anvil }));
let usdc: Token;
beforeAll(async () => {
  usdc = await deployUsdc({ anvil });
});

const token = { transferMethod: "permit2" } as const;

/** Checks the peers of a gateway that takes a token by Permit2. */
async function problems(options: Pick<PeersOptions, "facilitatorUrl" | "jobs"> = {}) {
  const config = peersConfig({ anvil, usdc, token, facilitatorUrl: facilitator.url, ...options });
  const { problems: found } = await checkX402Peers(config, METHODS);
  return found.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

test("Reports a chain without Permit2, or with its creation code in its place, for a token that is paid by it", async () => {
  const missing =
    "x402.accepted_tokens.0.transfer_method: is permit2, but eip155:84532 does not have Permit2 and x402's proxy; expected another method";
  expect(await problems()).toContain(missing);
  await installPermit2(anvil, { code: "creation" });
  expect(await problems()).toContain(missing);
  await installPermit2(anvil);
  expect(await problems()).toEqual([]);
});

test("Reports a chain without x402's proxy for metered payments, for jobs that are paid so", async () => {
  await installPermit2(anvil);
  await anvil.client.setCode({ address: x402UptoPermit2ProxyAddress, bytecode: "0x" });
  expect(await problems()).toEqual([]);
  const jobs = [{ serviceId: 1n, jobIndex: 0, charge: ["used"] }] as const;
  const metered = await startFacilitator({ anvil, meteredSettler: true });
  onTestFinished(() => metered.stop());
  const facilitatorUrl = metered.url;
  expect(await problems({ jobs, facilitatorUrl })).toEqual([
    `x402.accepted_tokens.0.transfer_method: is permit2, but eip155:84532 does not have Permit2 and x402's proxy for jobs with charge = "used"; expected another method`,
  ]);
  await installPermit2(anvil);
  expect(await problems({ jobs, facilitatorUrl })).toEqual([]);
});
