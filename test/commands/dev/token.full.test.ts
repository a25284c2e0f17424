import { expect, test } from "vitest";
import { DEV_USDC_CODE, EXACT_PROXY_CODE, UPTO_PROXY_CODE } from "../../../src/commands/dev/contract-code.ts";
import { compileSolidity } from "../../helpers/solidity.ts";

test("The shipped code of the play money and of x402's proxies is that of their sources", async () => {
  const { DevUsdc } = await compileSolidity("../../../src/commands/dev/DevUsdc.sol");
  const proxies = await compileSolidity("../../../src/commands/dev/Permit2Proxies.sol");
  expect(DEV_USDC_CODE).toBe(DevUsdc);
  expect(EXACT_PROXY_CODE).toBe(proxies.ExactPermit2Proxy);
  expect(UPTO_PROXY_CODE).toBe(proxies.UptoPermit2Proxy);
});
