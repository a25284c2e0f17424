import { expect, test } from "vitest";
import { EXACT_PROXY_CODE, UPTO_PROXY_CODE } from "../../../src/chain/local/permit2-code.ts";
import { compileSolidity } from "../../helpers/solidity.ts";

test("The shipped code of x402's proxies is that of their sources", async () => {
  const proxies = await compileSolidity("../../../src/chain/local/Permit2Proxies.sol");
  expect(EXACT_PROXY_CODE).toBe(proxies.ExactPermit2Proxy);
  expect(UPTO_PROXY_CODE).toBe(proxies.UptoPermit2Proxy);
});
