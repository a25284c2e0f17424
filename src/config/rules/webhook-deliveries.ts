import type { Place } from "../mistakes.ts";
import {
  DEFAULT_TOLERANCE_SECS,
  DEFAULT_WINDOW_MS,
  type EndpointTable,
  WEBHOOK_AUTH_MODES,
} from "../webhooks.ts";

/** Checks the keys of an endpoint that decide which deliveries it accepts, and which it treats as repeats. */
export function checkDeliveries(endpoint: EndpointTable, place: Place): void {
  const { auth, toleranceSecs, challenge } = endpoint;
  if (auth !== undefined && toleranceSecs !== undefined && !WEBHOOK_AUTH_MODES[auth].isTimed) {
    place
      .at("tolerance_secs")
      .report(
        `is never used, since requests with auth "${auth}" have no time of signing; expected no such key`,
      );
  }
  checkDedupe(endpoint, place);
  if (challenge?.tokenParameter !== undefined && challenge.token === undefined) {
    place
      .at("challenge", "token")
      .reportMissing("is missing; expected the value that token_parameter must have");
  }
  if (challenge?.parameter !== undefined && challenge.parameter === challenge.tokenParameter) {
    place
      .at("challenge", "token_parameter")
      .report("is the parameter that is sent back; expected another one");
  }
}

/** Checks that two different deliveries are not taken for one, and that a repeated delivery is recognised. */
function checkDedupe(endpoint: EndpointTable, place: Place): void {
  const { auth, dedupe, apiKeyHeader } = endpoint;
  if (auth === undefined || dedupe === false) return;
  const { isTimed, hasDeliveryId } = WEBHOOK_AUTH_MODES[auth];
  if (dedupe === undefined && !hasDeliveryId) return;
  if (dedupe !== undefined && dedupe.header === undefined && !hasDeliveryId) {
    place
      .at("dedupe", "header")
      .reportMissing(
        `is missing; expected the header that identifies a delivery, or "body", since auth "${auth}" has no delivery id of its own`,
      );
  }
  const credential =
    auth === "bearer" ? "authorization" : auth === "api-key" ? apiKeyHeader?.toLowerCase() : undefined;
  if (credential !== undefined && dedupe?.header === credential) {
    place
      .at("dedupe", "header")
      .report(
        "holds the sender's secret, which is the same in each delivery; expected the header with the delivery's id",
      );
  }
  const windowSecs = (dedupe?.windowMs ?? DEFAULT_WINDOW_MS) / 1000;
  const validSecs = 2 * (endpoint.toleranceSecs ?? DEFAULT_TOLERANCE_SECS);
  if (isTimed && windowSecs < validSecs) {
    const at = dedupe === undefined ? place.at("tolerance_secs") : place.at("dedupe", "window_secs");
    at.warn(
      `lets a captured request start a second job: it is valid for up to ${validSecs} s (twice tolerance_secs), and forgotten after ${windowSecs} s; expected a window that is not shorter`,
    );
  }
}
