import { expect, test } from "vitest";
import { tokenAccountOf } from "../../../src/parts/solana/addresses.ts";
import { tokenAccountOf as officialTokenAccountOf, solanaAccount } from "../../helpers/solana-cluster.ts";

test("The account of a token equals the official library's", async () => {
  for (let number = 1; number <= 8; number++) {
    const { address: owner } = await solanaAccount(number);
    const { address: mint } = await solanaAccount(number + 100);
    expect(tokenAccountOf(owner, mint)).toBe(await officialTokenAccountOf(owner, mint));
  }
});
