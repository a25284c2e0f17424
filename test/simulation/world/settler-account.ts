/*
 * Takes the place of `src/parts/transactions/account.ts`: accounts whose signatures cost nothing. The bytes of a transaction are its
 * fields, and its hash is a digest of them.
 */
import { createHash } from "node:crypto";
import type { UnsignedCall } from "../../../src/parts/transactions/account.ts";

/** A transaction as its bytes tell it. Addresses are lower case. */
export interface SignedCall extends UnsignedCall {
  readonly from: string;
  readonly hash: string;
}

export class SettlerAccount {
  readonly address: `0x${string}`;

  constructor(privateKey: `0x${string}`) {
    this.address = addressOfKey(privateKey);
  }

  async sign(call: UnsignedCall): Promise<{ readonly raw: string; readonly hash: string }> {
    const { chainId, nonce, to, data, gas, fees } = call;
    const amounts = [gas, fees.maxFeePerGas, fees.maxPriorityFeePerGas].map(String);
    const text = JSON.stringify([this.address, chainId, nonce, to.toLowerCase(), data, ...amounts]);
    const raw = `0x02${Buffer.from(text).toString("hex")}`;
    return { raw, hash: hashOf(raw) };
  }
}

export function addressOfKey(privateKey: string): `0x${string}` {
  return `0x${privateKey.slice(2, 42)}`;
}

export function readSigned(raw: string): Pick<UnsignedCall, "gas" | "fees"> {
  return decode(raw);
}

/** Reads a transaction from its bytes. */
export function decode(raw: string): SignedCall {
  const text = Buffer.from(raw.slice(4), "hex").toString();
  const [from, chainId, nonce, to, data, gas, most, tip] = JSON.parse(text);
  const fees = { maxFeePerGas: BigInt(most), maxPriorityFeePerGas: BigInt(tip) };
  return { from, chainId, nonce, to, data, gas: BigInt(gas), fees, hash: hashOf(raw) };
}

function hashOf(raw: string): string {
  return `0x${createHash("sha256").update(raw).digest("hex")}`;
}
