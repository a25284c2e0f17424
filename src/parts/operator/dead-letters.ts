import type {
  DeadLetterGroup,
  DropDeadLettersRequest,
  RetryDeadLettersRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { DeadLetterStatus } from "../../gen/jobgate/v1/operator_pb.ts";
import { invalid, isCallId, readPageToken } from "../../operator/requests.ts";
import { groupedReason } from "../../store/contract/dead-letter-box.ts";
import type { CallFilter } from "../../store/contract/operator-lists.ts";
import type { Store } from "../../store/store.ts";
import { ORIGIN_NAMES, readOrigin } from "./requests.ts";
import { type Outcome, STATUSES } from "./retry-statuses.ts";

/** Most call IDs in one request. */
const MAX_IDS = 1_000;
/**
 * Dead letters of a group that change in one step. A step needs one read and usually one commit, which it shares with
 * accepts.
 */
const STEP = 100;
/** Time after which a request on a group ends; the next request continues the change. */
const MAX_MS = 2_000;
/** `page_token` of a group's first step. */
const FIRST_TOKEN = String(Number.MAX_SAFE_INTEGER);

export interface Changed {
  readonly statuses: DeadLetterStatus[];
  readonly count: bigint;
  readonly nextPageToken: string;
}

/**
 * Changes the dead letters that a request names. A group is changed from its newest dead letter down, so that a call that
 * dies again in the meantime is not changed twice.
 * @param options `hasRoom` is called before each step of a group. The request ends before a step for which there is no
 * room.
 * @throws ConnectError INVALID_ARGUMENT for too many IDs, or for IDs and a group, before any is changed
 */
export async function changeDeadLetters(
  { callIds, group, pageToken }: RetryDeadLettersRequest | DropDeadLettersRequest,
  options: {
    readonly store: Store;
    readonly change: (callId: number) => Promise<Outcome>;
    readonly hasRoom: () => boolean;
    readonly signal: AbortSignal;
  },
): Promise<Changed> {
  const { store, change, hasRoom, signal } = options;
  if (callIds.length > MAX_IDS) throw invalid(`call_ids: expected at most ${MAX_IDS}.`);
  if (group === undefined) {
    const outcomes = await Promise.all(
      callIds.map(async (callId) => (isCallId(callId) ? change(Number(callId)) : "not_found")),
    );
    const statuses = outcomes.map((outcome) => STATUSES[outcome]);
    return { statuses, count: countOf(outcomes), nextPageToken: "" };
  }
  if (callIds.length > 0) throw invalid("group: expected either call_ids or a group.");
  const filter = readGroup(group);
  let token = pageToken === "" ? FIRST_TOKEN : pageToken;
  let count = 0n;
  const deadline = performance.now() + MAX_MS;
  while (hasRoom() && !signal.aborted && performance.now() < deadline) {
    const { items, next } = await store.listCalls({ ...filter, limit: STEP, before: readPageToken(token) });
    count += countOf(await Promise.all(items.map(({ callId }) => change(callId))));
    if (next === undefined) return { statuses: [], count, nextPageToken: "" };
    token = String(next);
  }
  return { statuses: [], count, nextPageToken: token };
}

function readGroup({ origin, serviceId, jobId, reason }: DeadLetterGroup): Omit<CallFilter, "limit"> {
  const exactOrigin = readOrigin(origin);
  if (exactOrigin === undefined) throw invalid(`group.origin: expected one of ${ORIGIN_NAMES}.`);
  return { state: "dead", origin: exactOrigin, serviceId, jobId, reason: groupedReason(reason) };
}

function countOf(outcomes: readonly Outcome[]): bigint {
  return BigInt(outcomes.filter((outcome) => STATUSES[outcome] === DeadLetterStatus.DONE).length);
}
