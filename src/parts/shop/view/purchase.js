/** @import { Requirements } from "../../../page/tools/chains.ts" */
/** @import { Answer, CallState, PaymentRequired } from "./data.js" */
/** @import { Body } from "./input-form.js" */
import { decodeHeader, newIdentifier, toBase64 } from "./payment.js";

/** Times that the page sends a payment again by itself, while the payment is undecided or the seller does not answer. */
const MAX_SENDS = 30;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 5_000;

/**
 * Purchase as stored in this tab, so that a reload neither loses a paid call nor pays twice.
 * @typedef {object} Kept
 * @property {string} identifier is the same for all payments for this body
 * @property {string} contentType
 * @property {string | undefined} body in base64; undefined if it is too large to be stored
 * @property {string} [payment] the header of a signed payment that may have been sent
 * @property {string} [paid] amount of the payment, in words
 * @property {Call} [call]
 */

/**
 * @typedef {object} Call
 * @property {number} id
 * @property {string} token
 * @property {string} receipt
 * @property {string} [transaction]
 * @property {string} [payer]
 */

/**
 * Outcome of sending a purchase.
 * @typedef {{ kind: "offered", required: PaymentRequired, nowSecs: number }
 *   | { kind: "bought", call: Call }
 *   | { kind: "refused", status: number, answer: Answer }
 *   | { kind: "undecided", words: string }} Outcome
 */

/** Address of the seller, for every path of this page. */
export const ROOT = new URL("../../../", import.meta.url);

const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The purchase of one job in this tab. */
export class Purchase {
  #key = `jobgate.purchase ${location.pathname}${location.search}`;
  #method;
  /** @type {Kept | undefined} */
  #kept;
  /** Body of this visit, even if it is too large to be stored. @type {Uint8Array<ArrayBuffer> | undefined} */
  #body;

  /** @param {"GET" | "POST"} method */
  constructor(method) {
    this.#method = method;
    const text = sessionStorage.getItem(this.#key);
    if (text === null) return;
    /** @type {Kept} */
    const kept = JSON.parse(text);
    this.#kept = kept;
    if (kept.body !== undefined) this.#body = Uint8Array.from(atob(kept.body), (char) => char.charCodeAt(0));
  }

  get kept() {
    return this.#kept;
  }

  get body() {
    return this.#body;
  }

  /**
   * Begins the purchase for a body. The same body is the same purchase and keeps the id, so that it is never paid twice.
   * @param {Uint8Array<ArrayBuffer>} body
   * @param {string} contentType
   */
  begin(body, contentType) {
    const encoded = toBase64(body);
    const before = this.#kept?.call === undefined ? this.#kept : undefined;
    const isSame = this.#body !== undefined && toBase64(this.#body) === encoded;
    const identifier = (isSame && before?.identifier) || newIdentifier();
    this.#body = body;
    this.#keep({ identifier, contentType, body: encoded });
  }

  /** Supplies the body again if it was too large to be stored. @param {Uint8Array<ArrayBuffer>} body */
  supply(body) {
    this.#body = body;
  }

  /** Keeps a signed payment, before it is sent. @param {string} payment @param {string} paid in words */
  sign(payment, paid) {
    if (this.#kept) this.#keep({ ...this.#kept, payment, paid });
  }

  /** Forgets the signed payment, but keeps the id for the next payment. */
  dropPayment() {
    const { payment: _payment, ...rest } = this.#kept ?? {};
    this.#keep(/** @type {Kept} */ (rest));
  }

  /** Forgets everything. */
  end() {
    this.#kept = undefined;
    this.#body = undefined;
    sessionStorage.removeItem(this.#key);
  }

  /** Sends the body without a payment: the job checks it, and answers with its offers. */
  async ask() {
    return this.#outcomeOf(await this.#fetch());
  }

  /**
   * Requests the offers for an input that the buyer may never buy.
   * @param {Body} input
   * @returns {Promise<readonly Requirements[]>} empty for an input that the job refuses
   */
  async offersFor({ bytes, contentType }) {
    const response = await this.#fetch(undefined, bytes, contentType);
    const offered = response.headers.get("payment-required");
    return response.status === 402 && offered !== null ? decodeHeader(offered).accepts : [];
  }

  /**
   * Sends the same payment until it is decided.
   * @param {(words: string) => void} tell shows why the payment takes long
   * @returns {Promise<Outcome>}
   */
  async pay(tell) {
    let delayMs = FIRST_DELAY_MS;
    let words = "";
    for (let sends = 0; sends < MAX_SENDS; sends++) {
      if (sends > 0) await wait(delayMs);
      delayMs = Math.min(delayMs * 1.5, MAX_DELAY_MS);
      try {
        const response = await this.#fetch(this.#kept?.payment);
        const outcome = await this.#outcomeOf(response);
        if (outcome.kind !== "refused" || isDecided(outcome.answer)) return outcome;
        delayMs = Number(response.headers.get("retry-after")) * 1_000 || delayMs;
        words = "The payment is on its way. The seller waits for the network to confirm it.";
      } catch {
        words = "No answer came. The same payment is sent again, which never pays twice.";
      }
      tell(words);
    }
    return { kind: "undecided", words };
  }

  /**
   * @param {string} [payment]
   * @param {Uint8Array<ArrayBuffer> | null} body
   * @param {string} type
   */
  #fetch(payment, body = this.#body ?? null, type = this.#kept?.contentType ?? "application/octet-stream") {
    const paid = payment !== undefined && { "payment-signature": payment };
    // The URL that the person opened is the whole request. The answer may be of any type.
    if (this.#method === "GET")
      return fetch(location.href, { headers: { accept: "*/*", ...paid }, cache: "no-store" });
    return fetch(location.pathname, {
      method: "POST",
      headers: { accept: "application/json", "content-type": type, ...paid },
      body,
    });
  }

  /** @param {Response} response @returns {Promise<Outcome>} */
  async #outcomeOf(response) {
    /** @type {Answer} */
    const answer = answeredCall(response) ?? parseAnswer(await response.text());
    const { call_id: id, access_token: token, receipt, code } = answer;
    if (id !== undefined && token !== undefined && receipt !== undefined) {
      const settlement = response.headers.get("payment-response");
      const { transaction, payer } = settlement === null ? {} : decodeHeader(settlement);
      const call = { id, token, receipt, transaction, payer };
      if (this.#kept) this.#keep({ ...this.#kept, call });
      return { kind: "bought", call };
    }
    if (response.status === 402 && code === "payment_required") {
      const required = decodeHeader(response.headers.get("payment-required"));
      // The gateway's clock decides what has expired.
      const nowMs = Date.parse(response.headers.get("date") ?? "") || Date.now();
      return { kind: "offered", required, nowSecs: Math.floor(nowMs / 1_000) };
    }
    return { kind: "refused", status: response.status, answer };
  }

  /** @param {Kept} kept */
  #keep(kept) {
    this.#kept = kept;
    try {
      sessionStorage.setItem(this.#key, JSON.stringify(kept));
    } catch {
      // The body is too large for the storage. Only the payment is stored, and the buyer has to choose the body again after a reload.
      sessionStorage.setItem(this.#key, JSON.stringify({ ...kept, body: undefined }));
    }
  }
}

/**
 * Reads the call of a response that is a result. Its headers have the fields that a 202 has in its body.
 * @param {Response} response @returns {Answer | undefined}
 */
function answeredCall({ headers }) {
  const [id, token, receipt] = ["x-call-id", "x-access-token", "x-receipt"].map((name) => headers.get(name));
  if (!id || !token || !receipt) return undefined;
  return { call_id: Number(id), access_token: token, receipt };
}

/** @param {string} text @returns {Answer} */
function parseAnswer(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/**
 * Reports whether a refusal of a payment is final. An error of a proxy says nothing about the payment, and the gateway may not
 * know yet whether money moved.
 * @param {Answer} answer
 */
function isDecided({ charged, retryable }) {
  return charged === false || retryable === false;
}

/** @param {Call} call @param {string} [tail] */
function askCall({ id, token }, tail = "") {
  return fetch(new URL(`x402/calls/${id}${tail}`, ROOT), {
    headers: { authorization: `Bearer ${token}`, accept: "*/*" },
  });
}

/**
 * Follows a paid call to its end.
 * @param {Call} call
 * @param {(state: CallState) => void} show
 * @returns {Promise<CallState | undefined>} undefined if the seller does not know the call any more
 */
export async function followCall(call, show) {
  for (let delayMs = 300; ; delayMs = Math.min(delayMs * 1.3, MAX_DELAY_MS)) {
    try {
      const response = await askCall(call);
      if ([401, 404, 410].includes(response.status)) return undefined;
      if (response.ok) {
        /** @type {CallState} */
        const state = await response.json();
        show(state);
        if (state.state === "succeeded" || state.state === "failed") return state;
      }
    } catch {
      // The seller cannot be reached now. The call continues without this page.
    }
    await wait(delayMs);
  }
}

/** Fetches the result of a call that has one. @param {Call} call */
export async function resultOf(call) {
  for (;;) {
    try {
      const response = await askCall(call, "/result");
      // A response without this header has no result, because the job returned none.
      if (!response.headers.has("x-call-id")) return { result: new Blob(), contentType: "" };
      return { result: await response.blob(), contentType: response.headers.get("content-type") ?? "" };
    } catch {
      await wait(MAX_DELAY_MS);
    }
  }
}
