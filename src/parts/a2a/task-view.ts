import { createHash } from "node:crypto";
import { isLosslessNumber } from "lossless-json";
import { isObject } from "../../core/objects.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";
import { EXTENSIONS } from "./payments.ts";
import type { Task } from "./task-ids.ts";

export type TaskState = "input-required" | "working" | "completed" | "failed" | "canceled";

/** Content of an artifact. */
export type ViewPart =
  | { readonly kind: "text"; readonly text: string; readonly mediaType: string }
  | { readonly kind: "data"; readonly data: unknown }
  | { readonly kind: "bytes"; readonly bytes: string; readonly mediaType: string }
  | { readonly kind: "url"; readonly url: string; readonly mediaType: string };

export interface Artifact {
  readonly parts: readonly ViewPart[];
  readonly metadata: Meta | undefined;
}

/** A task as clients see it. */
export interface TaskView {
  readonly task: Pick<Task, "id" | "contextId">;
  readonly state: TaskState;
  /** Unix milliseconds. */
  readonly at: number;
  /** A sentence about the state. */
  readonly text: string;
  /** Metadata of the message about the state, with the payment. */
  readonly payment: Meta;
  readonly artifacts: readonly Artifact[];
  /** Metadata of the task. */
  readonly metadata: Meta | undefined;
}

/** The results of methods in one version of A2A. */
export interface Wire {
  /** Result of the methods that return a task. */
  task(view: TaskView): object;
  /** Result of the methods that take a message, and first result of a stream. */
  begun(view: TaskView): object;
  status(view: TaskView, isLast: boolean): object;
  artifact(view: TaskView, artifact: Artifact): object;
}

/** Version 0.3. */
export const WIRE_03: Wire = {
  task: task03,
  begun: task03,
  status: (view, final) => ({ kind: "status-update", ...idsOf(view), status: status03(view), final }),
  artifact: (view, artifact) => ({
    kind: "artifact-update",
    ...idsOf(view),
    artifact: artifact03(artifact),
    append: false,
    lastChunk: true,
  }),
};

/** Version 1.0. */
export const WIRE_10: Wire = {
  task: task10,
  begun: (view) => ({ task: task10(view) }),
  status: (view) => ({ statusUpdate: { ...idsOf(view), status: status10(view) } }),
  artifact: (view, artifact) => ({
    artifactUpdate: { ...idsOf(view), artifact: artifact10(artifact), lastChunk: true },
  }),
};

const idsOf = ({ task }: TaskView) => ({ taskId: task.id, contextId: task.contextId });

function task03(view: TaskView): object {
  const { task, artifacts, metadata } = view;
  return {
    kind: "task",
    id: task.id,
    contextId: task.contextId,
    status: status03(view),
    ...(artifacts.length > 0 && { artifacts: artifacts.map(artifact03) }),
    metadata,
  };
}

function task10(view: TaskView): object {
  const { task, artifacts, metadata } = view;
  return {
    id: task.id,
    contextId: task.contextId,
    status: status10(view),
    ...(artifacts.length > 0 && { artifacts: artifacts.map(artifact10) }),
    metadata,
  };
}

function status03(view: TaskView): object {
  const { state, text } = view;
  return {
    state,
    timestamp: new Date(view.at).toISOString(),
    message: { kind: "message", role: "agent", parts: [{ kind: "text", text }], ...messageOf(view) },
  };
}

function status10(view: TaskView): object {
  const { state, text } = view;
  return {
    state: `TASK_STATE_${state.toUpperCase().replace("-", "_")}`,
    timestamp: new Date(view.at).toISOString(),
    message: { role: "ROLE_AGENT", parts: [{ text }], ...messageOf(view) },
  };
}

/**
 * Returns the fields that a message about a state has in both versions. Its ID is the same each time that the state is
 * shown.
 */
function messageOf(view: TaskView): object {
  const { task, state, text, payment } = view;
  const digest = createHash("sha256").update(`${task.id}\n${state}\n${text}`).digest("base64url");
  return { messageId: digest.slice(0, 22), ...idsOf(view), metadata: payment, extensions: [EXTENSIONS.v02] };
}

function artifact03({ parts, metadata }: Artifact): object {
  return { artifactId: "result", name: "result", parts: parts.map(part03), metadata };
}

function artifact10({ parts, metadata }: Artifact): object {
  return { artifactId: "result", name: "result", parts: parts.map(part10), metadata };
}

function part03(part: ViewPart): object {
  switch (part.kind) {
    case "text":
      return { kind: "text", text: part.text };
    case "data":
      // The official client of A2A 0.3 reads data other than an object as `{"value": data}`.
      return isObject(part.data) && !isLosslessNumber(part.data)
        ? { kind: "data", data: part.data }
        : { kind: "data", data: { value: part.data }, metadata: { data_part_compat: true } };
    case "bytes":
      return { kind: "file", file: { bytes: part.bytes, mimeType: part.mediaType, name: "result" } };
    case "url":
      return { kind: "file", file: { uri: part.url, mimeType: part.mediaType, name: "result" } };
  }
}

function part10(part: ViewPart): object {
  switch (part.kind) {
    case "text":
      return { text: part.text, mediaType: part.mediaType };
    case "data":
      return { data: part.data, mediaType: "application/json" };
    case "bytes":
      return { raw: part.bytes, mediaType: part.mediaType, filename: "result" };
    case "url":
      return { url: part.url, mediaType: part.mediaType, filename: "result" };
  }
}
