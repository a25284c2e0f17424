import { type Hex, hashTypedData } from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { signNatively } from "../../src/chain/native-signatures.ts";

/** A development account with its key, which the chain of every anvil funds with 10,000 ether. */
export type TestAccount = PrivateKeyAccount & { readonly privateKey: Hex };

/** The account of a key, which signs payments by the native library. */
function testAccount(privateKey: Hex): TestAccount {
  const account = privateKeyToAccount(privateKey);
  const signTypedData: PrivateKeyAccount["signTypedData"] = async (typedData) =>
    signNatively(hashTypedData(typedData), privateKey) ?? account.signTypedData(typedData);
  return { ...account, signTypedData, privateKey };
}

/** Makes an account that holds nothing. */
export function newAccount(): TestAccount {
  return testAccount(generatePrivateKey());
}

/**
 * The accounts that anvil prints at its start, derived from "test test … junk". Their keys are public.
 */
export const accounts = {
  /** Owns the tokens and mints. Also owns service 0 in the recorded chain state. */
  deployer: testAccount("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
  /** Pays the gas of settlements. */
  facilitator: testAccount("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
  /** Receives payments. */
  payTo: testAccount("0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
  /** Pays. */
  payer: testAccount("0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
  /** Pays too. */
  otherPayer: testAccount("0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
  /** Account outside of every payment: front-runs, receives misdirected transfers. */
  stranger: testAccount("0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
  /** Signs as a delegated caller. */
  caller: testAccount("0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
} as const;
