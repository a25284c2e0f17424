import { concat, keccak256, numberToHex } from "viem";
import type { JobKey } from "../core/job-call.ts";

/**
 * The digest that stands for one quote of a mapped price: keccak-256 of service_id u64 BE, job_index u32 BE,
 * price_wei 32 bytes BE, offer time in Unix nanoseconds u128 BE.
 * @returns 64 lower-case hex digits, without `0x`
 */
export function quoteDigest(job: JobKey, priceWei: bigint, offeredAtNs: bigint): string {
  const packed = concat([
    numberToHex(job.serviceId, { size: 8 }),
    numberToHex(job.jobIndex, { size: 4 }),
    numberToHex(priceWei, { size: 32 }),
    numberToHex(offeredAtNs, { size: 16 }),
  ]);
  return keccak256(packed).slice(2);
}
