import type { CallState } from "../../../store/contract/call-lookup.ts";

const POLL_INTERVAL_MS = 1_000;

/** Answers a call that goes on after its client has waited long enough. */
export function stillRunning(taskId: string, meta: object): object {
  return {
    content: [text(`The job is paid for and still running. Ask for it as the task ${taskId}.`)],
    structuredContent: { status: "running", task_id: taskId },
    _meta: meta,
  };
}

/** Shows a call as a task. */
export function taskOf(taskId: string, call: CallState | undefined): object {
  const createdAt = new Date(call?.enqueuedAt ?? Date.now()).toISOString();
  const lastUpdatedAt = call?.finishedAt === undefined ? createdAt : new Date(call.finishedAt).toISOString();
  const message = call?.progress?.text ?? call?.reason;
  return {
    taskId,
    status: statusOf(call),
    ...(message !== undefined && message !== "" && { statusMessage: message }),
    createdAt,
    lastUpdatedAt,
    ttl: null,
    pollInterval: POLL_INTERVAL_MS,
  };
}

function statusOf(call: CallState | undefined): "working" | "completed" | "failed" {
  if (call?.state === "succeeded") return "completed";
  return call?.state === "failed" || call?.state === "expired" ? "failed" : "working";
}

/** Progress never goes back: an attempt after the first begins where the last one ended. */
export function progressOf({ progress }: CallState): { progress: number; message?: string } | undefined {
  if (progress === undefined) return undefined;
  const message = progress.text === "" ? {} : { message: progress.text };
  return { progress: progress.percent ?? 0, ...message };
}

export function text(value: string) {
  return { type: "text", text: value };
}
