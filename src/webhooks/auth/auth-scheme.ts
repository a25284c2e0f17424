import type { WebhookEndpoint } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import type { HttpRequest } from "../../http/request.ts";

/** A way to authenticate senders, with the secrets of one endpoint. */
export interface AuthScheme {
  /**
   * Returns undefined for a request that is not authentic, without a reason, because senders must not learn the reason.
   * @param now Unix milliseconds
   */
  authenticate(request: HttpRequest, body: Uint8Array, now: number): Authentic | undefined;
  /** True if only a sender who knows the secret can make a body, so that a repeated body is a replay. */
  readonly signsBody: boolean;
  /** Place of the sender's own delivery id; undefined if the sender gives no ID. */
  readonly deliveryId?: DeliveryIdSource;
  /** Header with the kind of event, lower case; undefined if the sender has no such header. */
  readonly eventTypeHeader?: string;
  /**
   * Answers the sender's test of the endpoint, which starts no job.
   * @param body body of an authentic request
   * @returns the text that the sender expects back; undefined for every other request
   */
  handshake?(body: Uint8Array): string | undefined;
  /** Returns the headers that a sender must send with a body. @throws CannotSign */
  sign(body: Uint8Array, delivery: SignedDelivery): Record<string, string>;
}

export interface Authentic {
  /** Name of the secret that the sender used; undefined if the endpoint needs no secret. */
  readonly secretName?: string;
}

export interface DeliveryIdSource {
  /** Lower case; undefined if the ID is inside the body. */
  readonly header?: string;
  /** True if the signature covers the ID. Only then does a different ID mean a different delivery. */
  readonly isSigned: boolean;
  /** Returns undefined when an authentic request has no id. */
  find(request: HttpRequest, body: Uint8Array): string | undefined;
  /** Returns the body without the parts that change when the sender repeats a delivery. Default: the whole body. */
  lastingBody?(body: Uint8Array): string | Uint8Array;
}

/** A delivery to sign, apart from its body. */
export interface SignedDelivery {
  /** Unix milliseconds. */
  readonly now: number;
  /** Used by schemes in which the sender gives an id. */
  readonly deliveryId: string;
  /** `whsk_…`, to sign for an endpoint that knows only the public key. */
  readonly signingKey?: string;
}

/** Thrown when a delivery cannot be signed in a way that the endpoint would accept. */
export class CannotSign extends Error {
  override readonly name: string = "CannotSign";
}

/** Thrown when the endpoint's configuration is not enough to sign for it. */
export class SigningKeyMissing extends CannotSign {
  override readonly name = "SigningKeyMissing";
}

/**
 * Makes the refusal of an unauthentic request. It does not depend on the reason, so that a stranger learns nothing.
 * @param auth authentication of the endpoint. The refusal names only the bearer scheme, because the other schemes are
 * not HTTP schemes
 */
export function unauthorized(auth?: WebhookEndpoint["auth"]): GatewayError {
  const headers = auth?.mode === "bearer" ? { "www-authenticate": "Bearer" } : {};
  return new GatewayError("unauthorized", "unauthorized", { headers });
}
