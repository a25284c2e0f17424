import { expect, test } from "vitest";
import { DEV_USDC_CODE } from "../../../src/commands/dev/token.ts";
import { compileSolidity } from "../../helpers/solidity.ts";

test("The shipped code of the play money is that of its source", async () => {
  const { DevUsdc } = await compileSolidity("../../../src/commands/dev/DevUsdc.sol");
  expect(DEV_USDC_CODE).toBe(DevUsdc);
});
