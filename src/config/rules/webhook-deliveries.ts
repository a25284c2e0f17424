import type { KeyPath } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import { WEBHOOK_AUTH_MODES } from "../webhook-auth-modes.ts";
import { DEFAULT_TOLERANCE_SECS, DEFAULT_WINDOW_SECS } from "../webhook-defaults.ts";
import type { EndpointTable } from "./webhook-tables.ts";

/** What an endpoint's `auth` makes of its other keys, and what holds between these. */
export function checkDeliveries(endpoint: EndpointTable, path: KeyPath, mistakes: MistakeList): void {
  const { auth, tolerance_secs, dedupe, challenge, allow_cidrs } = endpoint;
  if (auth !== undefined) {
    const { isTimed, hasDeliveryId } = WEBHOOK_AUTH_MODES[auth];
    if (tolerance_secs !== undefined && !isTimed) {
      mistakes.report(
        [...path, "tolerance_secs"],
        `is never used, since requests with auth "${auth}" do not say when they were signed; expected none`,
      );
    }
    if (dedupe && dedupe.header === undefined && !hasDeliveryId) {
      mistakes.reportMissing(
        [...path, "dedupe", "header"],
        `is missing; expected the header that tells deliveries apart, or "body", since auth "${auth}" has no delivery id of its own`,
      );
    }
  }
  checkDedupe(endpoint, path, mistakes);
  if (challenge?.token_parameter !== undefined && challenge.token === undefined) {
    mistakes.reportMissing(
      [...path, "challenge", "token"],
      "is missing; expected what token_parameter must hold",
    );
  }
  if (challenge?.parameter !== undefined && challenge.parameter === challenge.token_parameter) {
    mistakes.report(
      [...path, "challenge", "token_parameter"],
      "is the parameter that is sent back; expected another one",
    );
  }
  if (allow_cidrs?.length === 0) {
    mistakes.report([...path, "allow_cidrs"], "is empty, which lets nobody in; expected at least one range");
  }
}

/** What would make one delivery of two, or two of one. */
function checkDedupe(endpoint: EndpointTable, path: KeyPath, mistakes: MistakeList): void {
  const { auth, dedupe, api_key_header } = endpoint;
  if (auth === undefined || dedupe === false) return;
  const { isTimed, hasDeliveryId } = WEBHOOK_AUTH_MODES[auth];
  if (dedupe === undefined && !hasDeliveryId) return;
  const credential = auth === "bearer" ? "authorization" : auth === "api-key" ? api_key_header : undefined;
  if (credential !== undefined && dedupe?.header === credential) {
    mistakes.report(
      [...path, "dedupe", "header"],
      "holds the sender's secret, which is the same in each delivery; expected the header with the delivery's id",
    );
  }
  const windowSecs = dedupe?.window_secs ?? DEFAULT_WINDOW_SECS;
  const toleranceSecs = endpoint.tolerance_secs ?? DEFAULT_TOLERANCE_SECS;
  if (isTimed && windowSecs < 2 * toleranceSecs) {
    mistakes.warn(
      dedupe?.window_secs === undefined ? [...path, "tolerance_secs"] : [...path, "dedupe", "window_secs"],
      `lets a request that somebody captured start a second job: it is valid for up to ${2 * toleranceSecs} s (twice tolerance_secs), and forgotten after ${windowSecs} s; expected a window that is not shorter`,
    );
  }
}
