import type { CallState } from "../../store/contract/call-lookup.ts";
import { isFinished } from "../../x402/calls/watch.ts";

const POLL_INTERVAL_MS = 1_000;
const TOTAL = 100;
/** Step of the progress. It is a power of two, so that sums are exact. */
const SMALLEST_STEP = 2 ** -7;

/** Answers a call that goes on after its client has waited long enough. */
export function stillRunning(taskId: string, meta: object): object {
  return {
    content: [text(`The job is paid for and still running. Ask for it as the task ${taskId}.`)],
    structuredContent: { status: "running", task_id: taskId },
    _meta: meta,
  };
}

/** Shows a call as a task, in versions with sessions. */
export function taskOf(taskId: string, call: CallState | undefined): object {
  const isFailed = call?.state === "failed" || call?.state === "expired";
  return {
    ...factsOf(taskId, call),
    status: isFailed ? "failed" : statusOf(call),
    ttl: null,
    pollInterval: POLL_INTERVAL_MS,
  };
}

/** Shows a call as a task, without sessions. A call that failed is completed: its result says that the job failed. */
export function statelessTask(taskId: string, call: CallState | undefined): object {
  return {
    ...factsOf(taskId, call),
    status: statusOf(call),
    ttlMs: null,
    pollIntervalMs: POLL_INTERVAL_MS,
  };
}

function factsOf(taskId: string, call: CallState | undefined): object {
  const createdAt = new Date(call?.enqueuedAt ?? Date.now()).toISOString();
  const lastUpdatedAt = call?.finishedAt === undefined ? createdAt : new Date(call.finishedAt).toISOString();
  const message = call?.progress?.text ?? call?.reason;
  return {
    taskId,
    ...(message !== undefined && message !== "" && { statusMessage: message }),
    createdAt,
    lastUpdatedAt,
  };
}

function statusOf(call: CallState | undefined): "working" | "completed" {
  return call !== undefined && hasEnded(call) ? "completed" : "working";
}

/** Returns true for a call whose outcome can be shown. */
export function hasEnded(call: CallState): boolean {
  return call.state === "failed" || isFinished(call);
}

/** Progress that is reported to the client of a call. */
export interface ToldProgress {
  readonly progress: number;
  readonly total: number;
  readonly message?: string;
}

/**
 * Returns the progress to report after `told`; undefined if nothing changed. MCP requires increasing values, so a new text
 * without a new percentage, or a new attempt, adds a fraction of a percent.
 */
export function progressAfter(
  told: ToldProgress | undefined,
  { progress }: CallState,
): ToldProgress | undefined {
  if (progress === undefined) return undefined;
  const { percent, text } = progress;
  const isNews = told === undefined || percent > told.progress || text !== (told.message ?? "");
  if (!isNews || told?.progress === TOTAL) return undefined;
  const lowest = told === undefined ? 0 : told.progress + SMALLEST_STEP;
  const value = Math.min(Math.max(percent, lowest), TOTAL);
  return { progress: value, total: TOTAL, ...(text !== "" && { message: text }) };
}

/** Shows an error as the content of a tool's answer. */
export function errorContent(told: object) {
  return { isError: true, structuredContent: told, content: [text(JSON.stringify(told))] };
}

export function text(value: string) {
  return { type: "text", text: value };
}
