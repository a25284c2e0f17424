import type { Parameters } from "../../core/parameters.ts";

/** Choices that a new configuration is made of. */
export interface NewConfig {
  readonly money?: Money | undefined;
  readonly job?: NewJob | undefined;
  readonly api?: NewApi | undefined;
  readonly webhook?: NewWebhook | undefined;
  /** Default: `sqlite:jobgate.db`. */
  readonly storeUrl?: string;
  readonly listeners?: NewListeners;
}

/** Recipient and token of payments. */
export interface Money {
  readonly payTo: string;
  /** Symbol of a token that jobgate knows on the network. */
  readonly symbol: string;
  readonly network: string;
  readonly facilitatorUrl: string;
  /** JSON-RPC of the network. Undefined if jobgate relies on the facilitator. */
  readonly rpcUrl?: string | undefined;
}

/** A job that a runner does. */
export interface NewJob {
  readonly name: string;
  readonly description: string;
  readonly price: string;
}

export interface NewWebhook {
  readonly path: string;
  readonly auth: string;
  /** Path, relative to the configuration file. */
  readonly secretFile: string;
}

/** An HTTP API, and its routes for sale. */
export interface NewApi {
  readonly name: string;
  readonly url: string;
  /** Header values as the configuration writes them: `env:NAME`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly routes: readonly NewRoute[];
}

export interface NewRoute {
  /** `GET /weather/{city}` */
  readonly route: string;
  /** `$0.01` */
  readonly price: string;
  /** Reason why the price of the description is not used. Completes "its x-payment-info …". */
  readonly ignoredPrice?: string;
  readonly details: RouteDetails;
}

/** Details of a route from a description. */
export interface RouteDetails {
  readonly name?: string;
  readonly title?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly isIdempotent?: boolean;
  readonly forwardHeaders?: readonly string[];
  readonly query?: Pick<Parameters, "properties" | "required">;
  readonly input?: {
    readonly contentType: string;
    /** JSON Schema of the body, as JSON. */
    readonly schema?: string;
    /** Example of a body. */
    readonly example?: string;
  };
  readonly outputType?: string;
}

export interface NewListeners {
  readonly x402: string;
  /** URL that buyers see. Undefined means the URL of the listener. */
  readonly publicUrl?: string | undefined;
  readonly operator: string;
}

/** Addresses that a configuration has unless others are chosen. */
export const LISTENERS: NewListeners = { x402: "127.0.0.1:8402", operator: "127.0.0.1:8405" };
