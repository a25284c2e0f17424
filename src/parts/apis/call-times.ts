/** The part of an API's table that bounds its calls; undefined while the table has a mistake. */
type Bounds = { readonly timeoutMs?: number | undefined } | undefined;

/** Time that a call may last beyond the API's `timeout_secs`. A buyer waits a little longer than the call. */
const EXTRA_RUN_SECS = 10;
const EXTRA_WAIT_SECS = 15;
/** Longest run of a job that is charged after the run in a token whose payments expire soon. */
const SOON_RUN_SECS = 20;
const STREAM_RUN_SECS = 300;
/** Most seconds that `max_wait_secs` and `max_run_secs` of a job can have. */
const MAX_WAIT_SECS = 3_600;
const MAX_RUN_SECS = 31_536_000;

/** Returns the default of a job's `max_run_secs`. A call that can be sold in tokens whose payments expire soon stays short enough. */
export function defaultRunSecs(
  api: Bounds,
  { isStream }: { readonly isStream: boolean },
): number | undefined {
  if (isStream) return STREAM_RUN_SECS;
  const isShort = (secsOf(api, 0, MAX_RUN_SECS) ?? MAX_RUN_SECS) <= SOON_RUN_SECS;
  return secsOf(api, EXTRA_RUN_SECS, isShort ? SOON_RUN_SECS : MAX_RUN_SECS);
}

/** Returns the default of the `max_wait_secs` of a job whose requests wait for its result. */
export function defaultWaitSecs(api: Bounds): number | undefined {
  return secsOf(api, EXTRA_WAIT_SECS, MAX_WAIT_SECS);
}

function secsOf(api: Bounds, more: number, most: number): number | undefined {
  if (api?.timeoutMs === undefined) return undefined;
  return Math.min(most, Math.ceil(api.timeoutMs / 1_000) + more);
}
