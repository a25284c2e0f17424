import { hash } from "node:crypto";

/** Hashes between two checks whether to stop: about a millisecond. */
const HASHES_BETWEEN_CHECKS = 4096;
const DIGEST_BYTES = 32;
const PROOF_BYTES = 8 + DIGEST_BYTES + 8;

/** Challenge that one proof of work solves. */
export interface Challenge {
  /** u64: the service of a job, or the blueprint of a service. */
  readonly id: bigint;
  /** Unix seconds. */
  readonly timestamp: bigint;
  /** Leading zero bits of the proof's hash. */
  readonly bits: number;
}

/**
 * Searches for the first nonce that solves a challenge: sha256(sha256(id u64 BE ‖ timestamp u64 BE) ‖ nonce u64 BE)
 * has enough leading zero bits.
 * @returns 48 bytes: the hash's length as u64 LE, the hash, the nonce as u64 LE; undefined once `shouldStop` returns
 * true
 */
export function solveChallenge(
  { id, timestamp, bits }: Challenge,
  shouldStop: () => boolean,
): Buffer | undefined {
  const highest = (2n ** BigInt(256 - bits) - 1n).toString(16).padStart(2 * DIGEST_BYTES, "0");
  const attempt = Buffer.alloc(DIGEST_BYTES + 8);
  challengeDigest(id, timestamp).copy(attempt);
  for (let nonce = 0; nonce < Number.MAX_SAFE_INTEGER; nonce++) {
    if (nonce % HASHES_BETWEEN_CHECKS === 0 && shouldStop()) return undefined;
    attempt.writeUInt32BE(Math.floor(nonce / 2 ** 32), DIGEST_BYTES);
    attempt.writeUInt32BE(nonce % 2 ** 32, DIGEST_BYTES + 4);
    // Making a hex digest is three times as fast as making a digest in a buffer. Hex texts compare as their numbers do.
    const found = hash("sha256", attempt, "hex");
    if (found <= highest) return encodeProof(found, nonce);
  }
  return undefined;
}

function challengeDigest(id: bigint, timestamp: bigint): Buffer {
  const challenge = Buffer.alloc(16);
  challenge.writeBigUInt64BE(id, 0);
  challenge.writeBigUInt64BE(timestamp, 8);
  return hash("sha256", challenge, "buffer");
}

function encodeProof(digest: string, nonce: number): Buffer {
  const proof = Buffer.alloc(PROOF_BYTES);
  proof.writeBigUInt64LE(BigInt(DIGEST_BYTES), 0);
  proof.write(digest, 8, "hex");
  proof.writeBigUInt64LE(BigInt(nonce), 8 + DIGEST_BYTES);
  return proof;
}
