import type { HttpRequest } from "../../http/request.ts";

/** One way in which senders prove who they are, with the secrets of one endpoint. */
export interface AuthScheme {
  /**
   * Undefined for a request that is not authentic; nothing of why not is told apart.
   * @param now Unix milliseconds
   */
  authenticate(request: HttpRequest, body: Uint8Array, now: number): Authentic | undefined;
  /** Whether a body can only come from who knows the secret, so that one that was seen before is a replay. */
  readonly signsBody: boolean;
  /** Where the sender's own delivery id is; absent when it gives none. */
  readonly deliveryId?: DeliveryIdSource;
  /**
   * Answers the sender's test of the endpoint, which starts no job.
   * @param body of an authentic request
   * @returns what the sender wants back; undefined for every other request
   */
  handshake?(body: Uint8Array): string | undefined;
  /** The headers that a sender must send with a body. @throws CannotSign */
  sign(body: Uint8Array, options: SignOptions): Record<string, string>;
}

export interface Authentic {
  /** Name of the secret that the sender used; absent when none is asked for. */
  readonly secretName?: string;
}

export interface DeliveryIdSource {
  /** Lower case; absent when the id is inside the body. */
  readonly header?: string;
  /** Whether the signature covers it: only then does another id mean another delivery. */
  readonly isSigned: boolean;
  /** Undefined when an authentic request has none. */
  find(request: HttpRequest, body: Uint8Array): string | undefined;
  /** The body without what the sender changes when it sends the same delivery again. Default: all of it. */
  lastingBody?(body: Uint8Array): string | Uint8Array;
}

export interface SignOptions {
  /** Unix milliseconds. */
  readonly now: number;
  /** For schemes in which the sender gives one. */
  readonly deliveryId: string;
  /** `whsk_…`, to sign for an endpoint that knows only the public key. */
  readonly signingKey?: string;
}

/** What was asked for cannot be signed in a way that the endpoint would accept. */
export class CannotSign extends Error {
  override readonly name: string = "CannotSign";
}

/** The endpoint's configuration is not enough to sign for it. */
export class SigningKeyMissing extends CannotSign {
  override readonly name = "SigningKeyMissing";
}
