import type { Fault, ProxiedAnswer } from "../helpers/fault.ts";

/** The facilitator settles, and its answer is wrong or lost. */
function changedBody(change: (body: Record<string, unknown>) => unknown, status?: number): Fault {
  return {
    kind: "change",
    change: (answer) => withBody(answer, JSON.stringify(change(JSON.parse(answer.body.toString()))), status),
  };
}

function withBody(answer: ProxiedAnswer, text: string, status = answer.status): ProxiedAnswer {
  return { ...answer, status, body: Buffer.from(text) };
}

/** Answers that say nothing, in place of a facilitator's, or after it did its work. */
const GARBLED: Readonly<Record<string, Fault>> = {
  "status 500 with a body": changedBody((body) => body, 500),
  "status 500 without a body": { kind: "change", change: (answer) => withBody(answer, "", 500) },
  HTML: {
    kind: "change",
    change: (answer) => ({
      ...withBody(answer, "<html><body>It works!</body></html>"),
      headers: { "content-type": "text/html" },
    }),
  },
  "truncated JSON": {
    kind: "change",
    change: (answer) => withBody(answer, answer.body.toString().slice(0, 20)),
  },
  "a connection that is cut in the body": { kind: "truncate", bytes: 10 },
  "no answer at all": { kind: "lose-answer" },
  "a body slower than the time-out": { kind: "slow-body", everyMs: 500 },
};

/** Answers that do not show whether it settled. */
export const LOST_SETTLE_ANSWERS: Readonly<Record<string, Fault>> = {
  ...GARBLED,
  "no answer until the time-out": { kind: "no-answer" },
  'success as the text "true"': changedBody((body) => ({ ...body, success: "true" })),
  "success missing": changedBody(({ success: _success, ...rest }) => rest),
  "success false": changedBody((body) => ({
    ...body,
    success: false,
    errorReason: "unexpected_settle_error",
  })),
  "success without a transaction": changedBody((body) => ({ ...body, transaction: "" })),
  "another payer than the payload's": changedBody((body) => ({
    ...body,
    payer: "0x000000000000000000000000000000000000dEaD",
  })),
  "another network than the payload's": changedBody((body) => ({ ...body, network: "eip155:8453" })),
};

/** The facilitator never gets the request. */
export const UNHEARD_SETTLE_REQUESTS: Readonly<Record<string, Fault>> = {
  "a connection that is cut": { kind: "cut" },
  "a redirect with status 308": {
    kind: "answer",
    status: 308,
    headers: { location: "http://127.0.0.1:9/settle" },
    body: "",
  },
  "status 500 without a body": { kind: "answer", status: 500, body: "" },
  "settlement_pending, which it forgets": {
    kind: "answer",
    status: 200,
    body: {
      success: false,
      errorReason: "settlement_pending",
      transaction: `0x${"5e".repeat(32)}`,
      network: "eip155:84532",
    },
  },
};

/** It has no verdict that can be used. */
export const NO_VERDICTS: Readonly<Record<string, Fault>> = {
  ...GARBLED,
  'isValid as the text "true"': changedBody((body) => ({ ...body, isValid: "true" })),
  "isValid missing": changedBody(({ isValid: _isValid, ...rest }) => rest),
  "isValid true with status 400": changedBody((body) => body, 400),
  "a redirect with status 308": {
    kind: "answer",
    status: 308,
    headers: { location: "http://127.0.0.1:9/verify" },
    body: "",
  },
  "a connection that is cut": { kind: "cut" },
  "no answer until the time-out": { kind: "no-answer" },
};
