/** What kind of text a mode's secret is: any, one that a header or a path segment can hold, or a Standard Webhooks key. */
type SecretFormat = "none" | "text" | "header" | "segment" | "key";

interface AuthModeTraits {
  readonly secretFormat: SecretFormat;
  /** Whether requests carry the time at which they were signed. */
  readonly isTimed: boolean;
  /** Whether the sender gives each delivery an id of its own, which stays the same when it is sent again. */
  readonly hasDeliveryId: boolean;
}

/** How senders prove who they are, by the value of `auth`. */
export const WEBHOOK_AUTH_MODES = {
  none: { secretFormat: "none", isTimed: false, hasDeliveryId: false },
  bearer: { secretFormat: "header", isTimed: false, hasDeliveryId: false },
  "hmac-sha256": { secretFormat: "text", isTimed: false, hasDeliveryId: false },
  "api-key": { secretFormat: "header", isTimed: false, hasDeliveryId: false },
  "standard-webhooks": { secretFormat: "key", isTimed: true, hasDeliveryId: true },
  svix: { secretFormat: "key", isTimed: true, hasDeliveryId: true },
  github: { secretFormat: "text", isTimed: false, hasDeliveryId: true },
  stripe: { secretFormat: "text", isTimed: true, hasDeliveryId: true },
  slack: { secretFormat: "text", isTimed: true, hasDeliveryId: true },
  shopify: { secretFormat: "text", isTimed: false, hasDeliveryId: true },
  "url-token": { secretFormat: "segment", isTimed: false, hasDeliveryId: false },
} as const satisfies Record<string, AuthModeTraits>;

export type WebhookAuthMode = keyof typeof WEBHOOK_AUTH_MODES;
