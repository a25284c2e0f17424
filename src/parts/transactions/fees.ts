/** Fees of a transaction (EIP-1559), in wei for each unit of gas. */
export interface Fees {
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
}

/** Current fees of the chain. */
export interface FeeMarket {
  readonly baseFeePerGas: bigint;
  readonly tip: bigint;
}

/**
 * Fees of a new transaction. They leave room for the base fee to double, as far as the cap allows.
 * @returns undefined while the base fee alone exceeds the cap
 */
export function newFees({ baseFeePerGas, tip }: FeeMarket, maxFeePerGasWei: bigint): Fees | undefined {
  if (baseFeePerGas > maxFeePerGasWei) return undefined;
  const maxFeePerGas = least(2n * baseFeePerGas + tip, maxFeePerGasWei);
  return { maxFeePerGas, maxPriorityFeePerGas: least(tip, maxFeePerGas) };
}

/**
 * Fees that replace a transaction at its nonce: nodes require both fees to be 10 % to 12.5 % higher.
 * @returns undefined when the cap does not allow them
 */
export function raisedFees(
  present: Fees,
  { baseFeePerGas, tip }: FeeMarket,
  maxFeePerGasWei: bigint,
): Fees | undefined {
  const lowest = raised(present.maxFeePerGas);
  const lowestTip = raised(present.maxPriorityFeePerGas);
  if (lowest > maxFeePerGasWei) return undefined;
  const maxFeePerGas = greatest(lowest, least(2n * baseFeePerGas + tip, maxFeePerGasWei));
  return { maxFeePerGas, maxPriorityFeePerGas: least(greatest(lowestTip, tip), maxFeePerGas) };
}

/** 12.5 % more, rounded up, and never the same. */
function raised(wei: bigint): bigint {
  return (wei * 9n) / 8n + 1n;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function greatest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
