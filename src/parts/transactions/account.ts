import {
  type Hex,
  parseSignature,
  parseTransaction,
  serializeTransaction,
  type TransactionSerializableEIP1559,
} from "viem";
import { privateKeyToAddress, sign } from "viem/accounts";
import { keccak256 } from "../../chain/keccak.ts";
import { signNatively } from "../../chain/native-signatures.ts";
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
  readonly #privateKey: Hex;
  /** With EIP-55's checksum. */
  readonly address: Hex;

  constructor(privateKey: Hex) {
    this.#privateKey = privateKey;
    this.address = privateKeyToAddress(privateKey);
  }

  async sign(call: UnsignedCall): Promise<{ readonly raw: string; readonly hash: string }> {
    const { chainId, nonce, to, data, gas, fees } = call;
    const transaction: TransactionSerializableEIP1559 = {
      type: "eip1559",
      chainId,
      nonce,
      to: to as Hex,
      data: data as Hex,
      gas,
      ...fees,
    };
    const raw = serializeTransaction(
      transaction,
      parseSignature(await this.#signHash(hashOf(serializeTransaction(transaction)))),
    );
    return { raw, hash: hashOf(raw) };
  }

  async #signHash(hash: Hex): Promise<Hex> {
    const privateKey = this.#privateKey;
    return signNatively(hash, privateKey) ?? sign({ hash, privateKey, to: "hex" });
  }
}

function hashOf(serialized: Hex): Hex {
  return keccak256(Buffer.from(serialized.slice(2), "hex"));
}

/** Reads the gas and the fees of a transaction that {@link SettlerAccount.sign} signed. */
export function readSigned(raw: string): { readonly gas: bigint; readonly fees: Fees } {
  const { gas = 0n, maxFeePerGas = 0n, maxPriorityFeePerGas = 0n } = parseTransaction(raw as `0x02${string}`);
  return { gas, fees: { maxFeePerGas, maxPriorityFeePerGas } };
}
