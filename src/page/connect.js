/** @import { Methods, TailMessage } from "./api.js" */

const SERVICE = "/jobgate.v1.OperatorService/";
const CALL_TIMEOUT_MS = 15_000;
/** Prefix of an envelope: one byte of flags, four of length. */
const PREFIX_BYTES = 5;
const END_OF_STREAM = 0b10;

/** A failed call. `code` is Connect's, or `unreachable` when jobgate does not answer. */
export class CallError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Client for the operator API: Connect with JSON. */
export class Client {
  /** @type {string | undefined} */
  #token;
  /** @type {AbortSignal} */
  #closed;

  /** @param {{ token: string | undefined, signal: AbortSignal }} options `signal` ends every call */
  constructor({ token, signal }) {
    this.#token = token;
    this.#closed = signal;
  }

  /**
   * Rejects with a {@link CallError}.
   * @template {keyof Methods} Name
   * @param {Name} method
   * @param {Methods[Name][0]} request
   * @returns {Promise<Methods[Name][1]>}
   */
  async call(method, request) {
    const signal = AbortSignal.any([this.#closed, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
    const response = await this.#post(method, "application/json", JSON.stringify(request), signal);
    if (!response.ok) throw await refusalOf(response);
    try {
      return await response.json();
    } catch {
      throw brokenOff(signal, "jobgate's answer broke off.");
    }
  }

  /**
   * Streams events. Throws a {@link CallError} when the stream fails.
   * @param {AbortSignal} closed
   * @returns {AsyncGenerator<TailMessage, void, void>}
   */
  async *tail(closed) {
    const signal = AbortSignal.any([this.#closed, closed]);
    const response = await this.#post("Tail", "application/connect+json", envelope("{}"), signal);
    if (!response.ok || response.body === null) throw await refusalOf(response);
    for await (const { flags, message } of envelopes(response.body)) {
      if ((flags & END_OF_STREAM) === 0) yield message;
      else if (message.error) throw new CallError(message.error.code, message.error.message ?? "");
      else return;
    }
    throw new CallError("unreachable", "The stream broke off.");
  }

  /**
   * @param {string} method
   * @param {string} contentType
   * @param {BodyInit} body
   * @param {AbortSignal} signal
   */
  async #post(method, contentType, body, signal) {
    const headers = new Headers({ "content-type": contentType, "connect-protocol-version": "1" });
    if (this.#token !== undefined) headers.set("authorization", `Bearer ${this.#token}`);
    try {
      return await fetch(SERVICE + method, { method: "POST", headers, body, signal, cache: "no-store" });
    } catch {
      throw this.#closed.aborted
        ? new CallError("canceled", "")
        : brokenOff(signal, "jobgate cannot be reached.");
    }
  }
}

/**
 * Error of an interrupted call. A time-out does not mean unreachable: other calls may be answered.
 * @param {AbortSignal} signal
 * @param {string} message
 */
function brokenOff({ reason }, message) {
  return reason instanceof DOMException && reason.name === "TimeoutError"
    ? new CallError("deadline_exceeded", `jobgate did not answer within ${CALL_TIMEOUT_MS / 1_000} s.`)
    : new CallError("unreachable", message);
}

/**
 * @param {Response} response
 * @returns {Promise<CallError>}
 */
async function refusalOf(response) {
  const { code, message } = await response.json().catch(() => ({}));
  return new CallError(code ?? "unknown", message ?? `jobgate answered ${response.status}.`);
}

/** @param {string} json */
function envelope(json) {
  const data = new TextEncoder().encode(json);
  const bytes = new Uint8Array(PREFIX_BYTES + data.length);
  new DataView(bytes.buffer).setUint32(1, data.length);
  bytes.set(data, PREFIX_BYTES);
  return bytes;
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{ flags: number, message: any }, void, void>}
 */
async function* envelopes(body) {
  const reader = body.getReader();
  let buffer = new Uint8Array();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(() => {
        throw new CallError("unreachable", "The stream broke off.");
      });
      if (done) return;
      buffer = join(buffer, value);
      while (buffer.length >= PREFIX_BYTES) {
        const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
        const end = PREFIX_BYTES + view.getUint32(1);
        if (buffer.length < end) break;
        const text = new TextDecoder().decode(buffer.subarray(PREFIX_BYTES, end));
        const flags = view.getUint8(0);
        buffer = buffer.slice(end);
        yield { flags, message: JSON.parse(text) };
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/**
 * @param {Uint8Array} first
 * @param {Uint8Array} second
 */
function join(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
