import { type SigningKey, signStandardWebhook } from "../../core/standard-webhooks.ts";
import type { Callback } from "./store/ledger.ts";

/** Content of a request. */
export interface CallbackMessage {
  /** ID that is the same for each attempt, and for every receiver of the event. */
  readonly id: string;
  readonly body: Uint8Array;
}

/** @param callUrl returns the URL of a call, at which its buyer gets its result */
export function toMessage(
  { event, callId, at, data }: Pick<Callback, "event" | "callId" | "at" | "data">,
  callUrl: ((callId: number) => string) | undefined,
): CallbackMessage {
  const { origin } = JSON.parse(data) as { readonly origin?: unknown };
  const url = origin === "x402" && callUrl ? `,"call_url":${JSON.stringify(callUrl(callId))}` : "";
  // The data stays text, because a service ID is a u64, which JSON.parse would round.
  const described = `${data.trimEnd().slice(0, -1)}${url}}`;
  const id = `${event.replace(".", "_")}_${callId}_${at}`;
  return message(id, event, at, described);
}

/** Makes the message of `jobgate callbacks test`. @param at Unix milliseconds */
export function testMessage(at: number): CallbackMessage {
  return message(`callback_test_${at}`, "callback.test", at, "{}");
}

function message(id: string, type: string, at: number, data: string): CallbackMessage {
  const timestamp = new Date(at).toISOString();
  return { id, body: Buffer.from(`{"type":"${type}","timestamp":"${timestamp}","data":${data}}`) };
}

/** Returns the headers of a request, signed as Standard Webhooks does. @param now Unix milliseconds */
export function callbackHeaders(
  { id, body }: CallbackMessage,
  keys: readonly SigningKey[],
  now: number,
): Record<string, string> {
  const time = String(Math.floor(now / 1000));
  const signatures = keys.map((key) => signStandardWebhook(key, `${id}.${time}.`, body));
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": time,
    "webhook-signature": signatures.join(" "),
  };
}
