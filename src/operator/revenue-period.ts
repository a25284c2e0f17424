import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { GetRevenueRequest } from "../gen/jobgate/v1/operator_pb.ts";
import type { RevenuePeriod } from "../store/store.ts";

const DEFAULT_PERIOD_MS = 24 * 60 * 60 * 1_000;
const DEFAULT_BUCKET_MS = 60 * 60 * 1_000;
const MIN_BUCKET_MS = 1_000;
const MAX_BUCKETS = 1_000;

/** @throws ConnectError INVALID_ARGUMENT for more than 1000 buckets, or such as are shorter than a second */
export function readRevenuePeriod({ since, bucket }: GetRevenueRequest, now: number): RevenuePeriod {
  const from = since === undefined ? now - DEFAULT_PERIOD_MS : timestampMs(since);
  const bucketMs = bucket === undefined ? DEFAULT_BUCKET_MS : durationMs(bucket);
  if (bucketMs < MIN_BUCKET_MS) {
    throw new ConnectError("bucket: expected a second or more.", Code.InvalidArgument);
  }
  if ((now - from) / bucketMs > MAX_BUCKETS) {
    throw new ConnectError(`since: expected at most ${MAX_BUCKETS} buckets ago.`, Code.InvalidArgument);
  }
  return { since: from, bucketMs };
}
