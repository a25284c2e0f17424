import { keccak256, type LocalAccount, parseTransaction } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { Fees } from "./fees.ts";

/** A call that an account is to sign. */
export interface UnsignedCall {
  readonly chainId: number;
  readonly nonce: number;
  readonly to: string;
  readonly data: string;
  readonly gas: bigint;
  readonly fees: Fees;
}

/** Account that pays for gas. Its key never leaves this object. */
export class SettlerAccount {
  readonly #account: LocalAccount;

  constructor(privateKey: `0x${string}`) {
    this.#account = privateKeyToAccount(privateKey);
  }

  /** With EIP-55's checksum. */
  get address(): `0x${string}` {
    return this.#account.address;
  }

  async sign(call: UnsignedCall): Promise<{ readonly raw: string; readonly hash: string }> {
    const { chainId, nonce, to, data, gas, fees } = call;
    const raw = await this.#account.signTransaction({
      type: "eip1559",
      chainId,
      nonce,
      to: to as `0x${string}`,
      data: data as `0x${string}`,
      gas,
      ...fees,
    });
    return { raw, hash: keccak256(raw) };
  }
}

/** Reads the gas and the fees of a transaction that {@link SettlerAccount.sign} signed. */
export function readSigned(raw: string): { readonly gas: bigint; readonly fees: Fees } {
  const { gas = 0n, maxFeePerGas = 0n, maxPriorityFeePerGas = 0n } = parseTransaction(raw as `0x02${string}`);
  return { gas, fees: { maxFeePerGas, maxPriorityFeePerGas } };
}
