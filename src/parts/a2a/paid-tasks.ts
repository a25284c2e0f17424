import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "lossless-json";
import { isJsonType } from "../../core/body-schema.ts";
import { MAX_RESULT_BYTES } from "../../core/job-call.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import { type CallState, NOT_KEPT } from "../../store/contract/call-lookup.ts";
import { describeCall, hasResult } from "../../x402/calls/call-answer.ts";
import { wholeResult } from "../../x402/calls/result-response.ts";
import { isFinished } from "../../x402/calls/watch.ts";
import { resultNotKept, withheldBecause } from "../../x402/calls/withheld.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";
import type { Services } from "../../x402/services.ts";
import type { Shop } from "../../x402/shop.ts";
import { callPath } from "../../x402/wire/paths.ts";
import type { Context } from "./context.ts";
import { type PaymentStatus, X402 } from "./payments.ts";
import type { Task } from "./task-ids.ts";
import type { Artifact, TaskView, ViewPart } from "./task-view.ts";

/** Deepest JSON that is shown as data: serializing a deeper value could overflow the stack. */
const MAX_NESTING = 64;

/** A paid task whose JobCall has not ended. */
export interface PaidTask {
  readonly task: Task;
  readonly callId: number;
  readonly payer: string;
  readonly view: TaskView;
}

/** Paid tasks: clients' views of their JobCalls. */
export class PaidTasks {
  readonly #services: Services;
  readonly #shop: Shop;

  constructor(services: Services, shop: Shop) {
    this.#services = services;
    this.#shop = shop;
  }

  /** Returns a task in the present state of its JobCall, with its result once there is a result. */
  async view(task: Task, call: CallState, { whenSent }: Pick<Context, "whenSent">): Promise<TaskView> {
    if (!hasEnded(call)) return this.goesOn(task, call);
    const isAnswered = hasResult(call);
    const settled = isAnswered ? await this.#shop.extensions.settlementOf(call) : undefined;
    const artifacts = isAnswered ? await this.#artifactsOf(call, whenSent) : [];
    const failed = withheldBecause(call)?.message ?? `The job failed: ${call.reason ?? "unknown"}.`;
    return {
      ...this.#base(task, call, settled),
      state: call.state === "succeeded" ? "completed" : "failed",
      text: call.state === "succeeded" ? "The job is done." : failed,
      artifacts,
    };
  }

  /** Returns a task whose JobCall has not ended. */
  goesOn(task: Task, call: CallState): TaskView {
    const { progress } = call;
    const base = this.#base(task, call);
    const text = progress?.text || "The job is paid for, and goes on.";
    const payment = progress === undefined ? base.payment : { ...base.payment, "jobgate/progress": progress };
    return { ...base, payment, state: "working", text, artifacts: [] };
  }

  /** Waits for the end of a task. @returns undefined if the task has not ended */
  async wait(task: Task, callId: number, context: Context, maxMs: number): Promise<TaskView | undefined> {
    const over = new AbortController();
    const end = () => over.abort();
    context.request.closed.addEventListener("abort", end);
    void sleep(maxMs, undefined, { signal: over.signal }).then(end, () => {});
    // A client that disconnects is not treated as gone, because it can query its task later.
    const stopWaiting = this.#shop.live?.onBegun(callId, new AbortController().signal);
    try {
      for await (const call of this.#services.watch.states(callId, over.signal))
        if (hasEnded(call)) return await this.view(task, call, context);
    } finally {
      context.request.closed.removeEventListener("abort", end);
      stopWaiting?.();
      end();
    }
    return undefined;
  }

  #base(task: Task, call: CallState, settled?: object) {
    const { callId, enqueuedAt, finishedAt, charge, settlement } = call;
    const settlements = [settled ?? (settlement === undefined ? undefined : JSON.parse(settlement))];
    const receipts = settlements.filter((one) => one !== undefined);
    const self = callPath(this.#shop.seller.publicUrl, callId);
    const payment: Meta = {
      [X402.status]: paymentStatus(charge),
      [X402.receipts]: receipts,
      ...(charge?.state === "failed" && { [X402.error]: "SETTLEMENT_FAILED" }),
    };
    const bought = {
      ...describeCall(call),
      access_token: this.#services.tokens.tokenOf(call.payment),
      links: { self, result: `${self}/result`, events: `${self}/events` },
    };
    return { task, at: finishedAt ?? enqueuedAt, payment, metadata: { "jobgate/call": bought } };
  }

  /** Reads the result of a call. A large result is replaced by its URL, which requires the call's access token. */
  async #artifactsOf(call: CallState, whenSent: Context["whenSent"]): Promise<Artifact[]> {
    const { store: calls } = this.#services;
    const { callId } = call;
    const result = await calls.findResult(callId);
    if (result === undefined) return [];
    if (result === NOT_KEPT) return [artifact(textPart(resultNotKept(call).message))];
    const { size, contentType: mediaType, status, headers } = result;
    const answer =
      status === undefined && headers === undefined
        ? undefined
        : { "jobgate/answer": { status: status ?? 200, headers: Object.fromEntries(headers ?? []) } };
    if (size > MAX_RESULT_BYTES) {
      const { origin } = new URL(this.#shop.seller.publicUrl);
      const url = `${origin}${callPath(this.#shop.seller.publicUrl, callId)}/result`;
      return [artifact({ kind: "url", url, mediaType }, answer)];
    }
    const forget = this.#shop.sent.forgetting(call);
    const body = await wholeResult(calls, callId, result);
    // The result is read before its deletion is registered. A result that could not be read was not sent, and must be
    // kept.
    if (forget !== undefined) whenSent(forget);
    return [artifact(partOf(mediaType, body), answer)];
  }
}

/** Returns true for a call whose outcome can be shown. */
export function hasEnded(call: CallState): boolean {
  return call.state === "failed" || isFinished(call);
}

function paymentStatus(charge: CallState["charge"]): PaymentStatus {
  if (charge === undefined || charge.state === "settled") return "payment-completed";
  return charge.state === "failed" ? "payment-failed" : "payment-verified";
}

function artifact(part: ViewPart, metadata?: Meta): Artifact {
  return { parts: [part], metadata };
}

function textPart(text: string, mediaType = "text/plain"): ViewPart {
  return { kind: "text", text, mediaType };
}

/** Shows a result: JSON as data with all digits of its numbers, a text as text, and anything else as a file. */
function partOf(mediaType: string, body: Uint8Array): ViewPart {
  const type = mediaType.toLowerCase();
  const isJson = isJsonType(mediaType);
  if (!isJson && !type.startsWith("text/"))
    return { kind: "bytes", bytes: Buffer.from(body).toString("base64"), mediaType };
  const text = Buffer.from(body).toString();
  const data = isJson ? parsed(text) : undefined;
  return data === undefined ? textPart(text, mediaType) : { kind: "data", data };
}

/** Parses JSON that can be serialized again. */
function parsed(text: string): unknown {
  try {
    const data = parse(text);
    return isNestedDeeper(JSON.parse(text), MAX_NESTING) ? undefined : data;
  } catch {
    return undefined;
  }
}
