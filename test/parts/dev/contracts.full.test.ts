import { expect, test } from "vitest";
import { DEV_USDC_CODE } from "../../../src/parts/dev/contract-code.ts";
import { EXACT_PROXY_CODE, UPTO_PROXY_CODE } from "../../../src/parts/dev/permit2-code.ts";
import { compileSolidity } from "../../helpers/solidity.ts";

test("The shipped code of the play money matches its source", async () => {
  const { DevUsdc } = await compileSolidity("../../../src/parts/dev/DevUsdc.sol");
  expect(DEV_USDC_CODE).toBe(DevUsdc);
});

test("The shipped code of x402's proxies matches their sources", async () => {
  const proxies = await compileSolidity("../../../src/parts/dev/Permit2Proxies.sol");
  expect(EXACT_PROXY_CODE).toBe(proxies.ExactPermit2Proxy);
  expect(UPTO_PROXY_CODE).toBe(proxies.UptoPermit2Proxy);
});
