import { durationMs, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { GetActivityRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import { invalid } from "../../operator/requests.ts";
import { ACTIVITIES, type Sample } from "./history.ts";
import { bigints } from "./messages.ts";

const MINUTE_MS = 60_000;
const DEFAULT_BUCKET_MS = 5 * MINUTE_MS;

/**
 * Counts what the process did in each bucket of time: the difference between two samples.
 * @throws ConnectError INVALID_ARGUMENT for a bucket that is not a whole number of minutes
 */
export function countActivity({ since, bucket }: GetActivityRequest, samples: readonly Sample[]) {
  const bucketMs = bucket === undefined ? DEFAULT_BUCKET_MS : durationMs(bucket);
  if (bucketMs < MINUTE_MS || bucketMs % MINUTE_MS !== 0)
    throw invalid("bucket: expected a whole number of minutes.");
  const startOf = (at: number) => Math.floor(at / bucketMs) * bucketMs;
  const from = Math.max(samples[0]?.at ?? 0, since === undefined ? 0 : timestampMs(since));
  const buckets = new Map<number, ReturnType<typeof zeros>>();
  for (let at = startOf(from); at <= (samples.at(-1)?.at ?? 0); at += bucketMs) buckets.set(at, zeros());
  for (const [index, { at, counts }] of samples.entries()) {
    const found = buckets.get(startOf(at));
    const next = samples[index + 1];
    if (found === undefined || next === undefined) continue;
    for (const name of ACTIVITIES) found[name] += next.counts[name] - counts[name];
  }
  return {
    activity: [...buckets].map(([at, counts]) => ({ from: timestampFromMs(at), ...bigints(counts) })),
  };
}

function zeros() {
  return { accepted: 0, acked: 0, retried: 0, deadLettered: 0, refused: 0 };
}
