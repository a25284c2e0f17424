import { expect, test } from "vitest";
import { DEV_USDC_CODE } from "../../../src/parts/dev/contract-code.ts";
import { compileSolidity } from "../../helpers/solidity.ts";

test("The shipped code of the play money is that of its source", async () => {
  const { DevUsdc } = await compileSolidity("../../../src/parts/dev/DevUsdc.sol");
  expect(DEV_USDC_CODE).toBe(DevUsdc);
});
