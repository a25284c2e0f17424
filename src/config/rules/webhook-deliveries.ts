import type { KeyPath } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import {
  DEFAULT_TOLERANCE_SECS,
  DEFAULT_WINDOW_MS,
  type EndpointTable,
  WEBHOOK_AUTH_MODES,
} from "../webhooks.ts";

/** Checks the keys of an endpoint that decide which deliveries it accepts, and which count as repeats. */
export function checkDeliveries(endpoint: EndpointTable, path: KeyPath, mistakes: MistakeList): void {
  const { auth, toleranceSecs, challenge, allowCidrs } = endpoint;
  if (auth !== undefined && toleranceSecs !== undefined && !WEBHOOK_AUTH_MODES[auth].isTimed) {
    mistakes.report(
      [...path, "tolerance_secs"],
      `is never used, since requests with auth "${auth}" have no time of signing; expected no such key`,
    );
  }
  checkDedupe(endpoint, path, mistakes);
  if (challenge?.tokenParameter !== undefined && challenge.token === undefined) {
    mistakes.reportMissing(
      [...path, "challenge", "token"],
      "is missing; expected the value that token_parameter must have",
    );
  }
  if (challenge?.parameter !== undefined && challenge.parameter === challenge.tokenParameter) {
    mistakes.report(
      [...path, "challenge", "token_parameter"],
      "is the parameter that is sent back; expected another one",
    );
  }
  if (allowCidrs?.length === 0) {
    mistakes.report([...path, "allow_cidrs"], "is empty, which lets nobody in; expected at least one range");
  }
}

/** Checks that two deliveries do not count as one, nor one as two. */
function checkDedupe(endpoint: EndpointTable, path: KeyPath, mistakes: MistakeList): void {
  const { auth, dedupe, apiKeyHeader } = endpoint;
  if (auth === undefined || dedupe === false) return;
  const { isTimed, hasDeliveryId } = WEBHOOK_AUTH_MODES[auth];
  if (dedupe === undefined && !hasDeliveryId) return;
  if (dedupe !== undefined && dedupe.header === undefined && !hasDeliveryId) {
    mistakes.reportMissing(
      [...path, "dedupe", "header"],
      `is missing; expected the header that identifies a delivery, or "body", since auth "${auth}" has no delivery id of its own`,
    );
  }
  const credential = auth === "bearer" ? "authorization" : auth === "api-key" ? apiKeyHeader : undefined;
  if (credential !== undefined && dedupe?.header === credential) {
    mistakes.report(
      [...path, "dedupe", "header"],
      "holds the sender's secret, which is the same in each delivery; expected the header with the delivery's id",
    );
  }
  const windowSecs = (dedupe?.windowMs ?? DEFAULT_WINDOW_MS) / 1000;
  const validSecs = 2 * (endpoint.toleranceSecs ?? DEFAULT_TOLERANCE_SECS);
  if (isTimed && windowSecs < validSecs) {
    mistakes.warn(
      dedupe === undefined ? [...path, "tolerance_secs"] : [...path, "dedupe", "window_secs"],
      `lets a captured request start a second job: it is valid for up to ${validSecs} s (twice tolerance_secs), and forgotten after ${windowSecs} s; expected a window that is not shorter`,
    );
  }
}
