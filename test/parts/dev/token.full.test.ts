import { expect, test } from "vitest";
import { DEV_USDC_CODE, EXACT_PROXY_CODE, UPTO_PROXY_CODE } from "../../../src/parts/dev/contract-code.ts";
import { compileSolidity } from "../../helpers/solidity.ts";

test("The shipped code of the play money and of x402's proxies is that of their sources", async () => {
  const { DevUsdc } = await compileSolidity("../../../src/parts/dev/DevUsdc.sol");
  const proxies = await compileSolidity("../../../src/parts/dev/Permit2Proxies.sol");
  expect(DEV_USDC_CODE).toBe(DevUsdc);
  expect(EXACT_PROXY_CODE).toBe(proxies.ExactPermit2Proxy);
  expect(UPTO_PROXY_CODE).toBe(proxies.UptoPermit2Proxy);
});
