import { setTimeout as sleep } from "node:timers/promises";
import type { SettleResponse } from "@x402/core/types";
import { equalJobs, type JobKey, MAX_RESULT_BYTES } from "../../core/job-call.ts";
import { type CallState, NOT_KEPT } from "../../store/contract/call-lookup.ts";
import { hasResult, lateSettlement } from "../../x402/calls/call-answer.ts";
import { wholeResult } from "../../x402/calls/result-response.ts";
import { resultNotKept, withheldBecause } from "../../x402/calls/withheld.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";
import type { Services } from "../../x402/services.ts";
import type { Shop } from "../../x402/shop.ts";
import { callPath } from "../../x402/wire/paths.ts";
import type { Context } from "./context.ts";
import { IN_CONTENT, isDescribed, isStructured } from "./output-schema.ts";
import { errorContent, hasEnded, progressAfter, type ToldProgress, text } from "./tasks.ts";
import { contentOf } from "./tools.ts";

/** Key in `_meta` of a runner's status and headers. */
const ANSWER = "jobgate/answer";
/** Key in `_meta` of the call. */
export const CALL = "jobgate/call";

/** A message that waits for a call. */
interface Waiting extends Context {
  readonly meta: Meta;
  /** Returns the fields that `_meta` has for a settlement after the job. Default: the fields of x402. */
  readonly settledMeta?: (settlement: SettleResponse) => Meta;
  readonly maxMs: number;
}

/** The outcomes of paid calls, as results of tools. */
export class Outcomes {
  readonly #services: Services;
  readonly #shop: Shop;
  readonly #longToolMs: number;

  /** @param longToolMs longest wait of a request that shows its progress */
  constructor(services: Services, shop: Shop, longToolMs: number) {
    this.#services = services;
    this.#shop = shop;
    this.#longToolMs = longToolMs;
  }

  /** Waits for a paid call to end, and returns its outcome; undefined if the call has not ended. */
  async wait(callId: number, of: Waiting): Promise<object | undefined> {
    const { watch } = this.#services;
    const { extensions } = this.#shop;
    const { progressToken } = of.message.meta;
    const showsProgress = of.notify !== undefined && progressToken !== undefined;
    const over = new AbortController();
    const end = () => over.abort();
    of.request.closed.addEventListener("abort", end);
    // Progress shows the client that the call continues.
    const maxMs = showsProgress ? this.#longToolMs : of.maxMs;
    void sleep(maxMs, undefined, { signal: over.signal }).then(end, () => {});
    // An MCP client that disconnects is not treated as gone, because it can query its task later.
    const stopWaiting = this.#shop.live?.onBegun(callId, new AbortController().signal);
    let told: ToldProgress | undefined;
    try {
      for await (const call of watch.states(callId, over.signal)) {
        const progress = showsProgress ? progressAfter(told, call) : undefined;
        if (progress !== undefined) {
          told = progress;
          const params = { progressToken, ...progress };
          of.notify?.({ jsonrpc: "2.0", method: "notifications/progress", params });
        }
        if (!hasEnded(call)) continue;
        if (hasResult(call)) {
          const settled = await extensions.settlementOf(call);
          const late = lateSettlement(call);
          const { settledMeta = x402Meta } = of;
          const meta = {
            ...withCharge(of.meta, call),
            ...(late && settledMeta(late)),
            ...(settled && x402Meta(settled)),
          };
          const isError = call.state === "failed" ? { isError: true } : {};
          const { content, answer } = await this.#show(call, of);
          return { ...isError, ...content, _meta: { ...meta, ...answer } };
        }
        const failed = withheldBecause(call)?.message ?? `The job failed: ${call.reason ?? "unknown"}`;
        const reason = call.state === "failed" ? failed : "The call has expired.";
        return { isError: true, content: [text(reason)], _meta: withCharge(of.meta, call) };
      }
    } finally {
      of.request.closed.removeEventListener("abort", end);
      stopWaiting?.();
      end();
    }
    return undefined;
  }

  /**
   * Reads the result of a call. A large result is replaced by its link, which requires the call's access token.
   * @returns `answer` has the runner's status and headers
   */
  async #show(
    call: CallState,
    { whenSent }: Pick<Waiting, "whenSent">,
  ): Promise<{ readonly content: object; readonly answer: Meta }> {
    const { store: calls } = this.#services;
    const { callId } = call;
    const result = await calls.findResult(callId);
    if (result === NOT_KEPT) {
      const { code, message: error, details } = resultNotKept(call);
      return { content: errorContent({ error, code, ...details }), answer: {} };
    }
    if (result === undefined) return { content: await this.#described(call, { content: [] }), answer: {} };
    const { size, contentType: mimeType, status, headers } = result;
    const answer =
      status === undefined && headers === undefined
        ? {}
        : { [ANSWER]: { status: status ?? 200, headers: Object.fromEntries(headers ?? []) } };
    if (size <= MAX_RESULT_BYTES) {
      const forget = this.#shop.sent.forgetting(call);
      // A status without a body, such as 204.
      const isEmpty = size === 0 && status !== undefined;
      const body = isEmpty ? undefined : await wholeResult(calls, callId, result);
      const shown = body === undefined ? { content: [] } : contentOf(callId, { contentType: mimeType, body });
      const content = await this.#described(call, shown, body);
      // The result is read before its deletion is registered. A result that could not be read was not sent, and must be
      // kept.
      if (forget !== undefined) whenSent(forget);
      return { content, answer };
    }
    const uri = `${callPath(this.#shop.seller.publicUrl, callId)}/result`;
    const link = { type: "resource_link", uri, name: `Result of call ${callId}`, mimeType, size };
    return { content: await this.#described(call, { content: [link] }), answer };
  }

  /** Returns content whose `structuredContent` matches the schema of the call's tool, if the tool has a schema. */
  async #described({ job }: CallState, content: object, result?: Uint8Array): Promise<object> {
    const output = await this.#outputOf(job);
    if (output === undefined) return content;
    const isKept =
      "structuredContent" in content && result !== undefined && (await isDescribed(output, result));
    return isKept ? content : { ...content, structuredContent: IN_CONTENT };
  }

  /** Returns the output of a job whose tool has a schema of it. */
  async #outputOf(key: JobKey) {
    const jobs = await this.#shop.listing.jobs();
    const output = jobs.find((job) => equalJobs(job, key))?.output;
    return isStructured(output) ? output : undefined;
  }
}

export function x402Meta(settlement: SettleResponse | undefined): Meta {
  return settlement === undefined ? {} : { "x402/payment-response": settlement };
}

/** Returns fields with the present charge of a call, instead of the charge at the time when the payment was accepted. */
function withCharge(meta: Meta, { charge }: CallState): Meta {
  const told = meta[CALL];
  if (charge === undefined || told === undefined) return meta;
  return { ...meta, [CALL]: { ...told, payment: charge.state === "settled" ? undefined : charge.state } };
}
