import { expect, it } from "vitest";
import { accounts } from "./accounts.ts";
import { borrowAnvil } from "./anvil.ts";
import { signV2Payment } from "./clients.ts";
import { deployFaultyToken, type TokenFault } from "./faulty-token.ts";
import { startBeforeAll } from "./start-before-all.ts";
import type { SignedAuthorization, Token } from "./usdc.ts";

const anvil = startBeforeAll(borrowAnvil);

const payer = accounts.payer.address;
const payTo = accounts.payTo.address;

async function tokenAndPayment(fault: TokenFault): Promise<[Token, SignedAuthorization]> {
  const token = await deployFaultyToken({ anvil, fault });
  await token.mint(payer, 1000n);
  const requirements = {
    scheme: "exact",
    network: "eip155:84532",
    amount: "100",
    asset: token.address,
    payTo,
    maxTimeoutSeconds: 300,
    extra: { name: token.name, version: token.version },
  } as const;
  const offer = { x402Version: 2, resource: { url: "http://127.0.0.1/" }, accepts: [requirements] };
  return [token, (await signV2Payment({ offer, account: accounts.payer })).signed];
}

it("One token accepts a used nonce again, and moves nothing the second time", async () => {
  const [token, signed] = await tokenAndPayment("SilentOnUsedNonce");
  await token.transferWithAuthorization(signed);
  await token.transferWithAuthorization(signed);
  expect(await token.balanceOf(payTo)).toBe(100n);
});

it("One token marks an authorization used and moves nothing", async () => {
  const [token, signed] = await tokenAndPayment("MovesNothing");
  await token.transferWithAuthorization(signed);
  expect(await token.authorizationState(payer, signed.authorization.nonce)).toBe(true);
  expect([await token.balanceOf(payer), await token.balanceOf(payTo)]).toEqual([1000n, 0n]);
});

it("One token keeps a tenth of each transfer", async () => {
  const [token, signed] = await tokenAndPayment("TakesFee");
  await token.transferWithAuthorization(signed);
  expect([await token.balanceOf(payer), await token.balanceOf(payTo)]).toEqual([900n, 90n]);
});

it("A cancelled authorization counts as used on each token", async () => {
  const [token, signed] = await tokenAndPayment("TakesFee");
  await token.cancelAuthorization(accounts.payer, signed.authorization.nonce);
  expect(await token.authorizationState(payer, signed.authorization.nonce)).toBe(true);
  await expect(token.transferWithAuthorization(signed)).rejects.toThrow("reverted");
});
