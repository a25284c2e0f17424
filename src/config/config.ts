import type { BindAddress, IpRange, TcpAddress } from "../core/network-address.ts";

/**
 * The configuration after it was read, checked and completed: what every part of jobgate is given.
 * The file's own shape, with its key names and defaults, is in schema.ts.
 */
export interface Config {
  /** u64, stamped on webhook JobCalls. */
  readonly serviceId: bigint;
  readonly store: StoreConfig;
  readonly runner: RunnerConfig;
  readonly operator: OperatorConfig;
  /** Absent: the gateway does not listen. */
  readonly x402?: X402Config;
  /** Absent: the gateway does not listen. */
  readonly webhooks?: WebhooksConfig;
  readonly pricingEngine?: PricingEngineConfig;
}

export interface StoreConfig {
  /** `sqlite:PATH` or `postgres://…`; a relative path is relative to the working directory. */
  readonly url: string;
  /** JobCalls not yet finished above which new work is refused; over all replicas that share the store. */
  readonly maxPending: number;
  /** How to connect to a `postgres://` store. */
  readonly postgres?: PostgresConfig;
}

export interface PostgresConfig {
  /** Connections that this process may have open. Default 10, at least 4. */
  readonly poolSize?: number;
  /** Absent: as the URL's `sslmode` says; without one, `verify-full` unless the host is loopback or a Unix socket. */
  readonly tls?: "disable" | "require" | "verify-full";
  /** Path of a PEM file with the authorities to trust in place of the well-known ones. */
  readonly ca?: string;
}

export interface RunnerConfig {
  readonly bindAddress: BindAddress;
  readonly token?: string;
  readonly leaseMs: number;
  readonly maxAttempts: number;
  readonly retryBaseMs: number;
  readonly retryMaxMs: number;
  readonly drainMs: number;
  /** Paths of PEM files. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly clientCa?: string };
}

export interface OperatorConfig {
  readonly bindAddress: BindAddress;
  readonly token?: string;
}

export interface X402Config {
  readonly bindAddress: TcpAddress;
  /** Without a trailing slash. */
  readonly publicUrl: string;
  /** Without a trailing slash. */
  readonly facilitatorUrl: string;
  readonly facilitatorTimeoutMs: number;
  readonly quoteTtlSecs: number;
  readonly maxBodyBytes: number;
  readonly defaultInvocationMode: "disabled" | "public_paid";
  readonly acceptedTokens: readonly AcceptedToken[];
  readonly jobPolicies: readonly JobPolicy[];
  readonly priceSource: "map" | "engine";
  /** Prices in wei by `jobKeyText` ("service/job"), from `[job_pricing]`. */
  readonly jobPricing: ReadonlyMap<string, bigint>;
  readonly limits: X402Limits;
}

/** How much work one client, or all of them, can cause before anything is paid. */
export interface X402Limits {
  /** Requests without a settled payment that one client address may make in a second. */
  readonly maxUnpaidPerSecondPerClient: number;
  /** Verifications that one client address may have going at the facilitator at once. */
  readonly maxVerifiesPerClient: number;
  /** Verifications that all clients together may have going at the facilitator at once. */
  readonly maxVerifies: number;
}

export interface AcceptedToken {
  /** CAIP-2, `eip155:N`. */
  readonly network: `eip155:${number}`;
  /** Checksummed address. */
  readonly asset: `0x${string}`;
  readonly symbol: string;
  readonly decimals: number;
  /** Checksummed address. */
  readonly payTo: `0x${string}`;
  readonly rate: RateSource;
  readonly markupBps: number;
  readonly transferMethod: "eip3009";
  /** EIP-712 domain of the token. */
  readonly eip3009: { readonly name: string; readonly version: string };
  readonly rpcUrl?: string;
  /** Blocks that must hold the settlement, its own included, before it counts; at least 1. */
  readonly confirmations: number;
  /** Whether a settlement counts only once the chain shows it. Never true without `rpcUrl`. */
  readonly requireOnchainConfirmation: boolean;
}

/** Where a token's rate comes from: whole tokens for one native unit. */
export type RateSource =
  | {
      readonly kind: "fixed";
      /** Decimal string > 0. */
      readonly ratePerNativeUnit: string;
    }
  | (LiveRateTimes & {
      /** A Chainlink price feed, or whatever else answers as an AggregatorV3Interface. */
      readonly kind: "chainlink";
      /** May hold credentials. */
      readonly rpcUrl: string;
      /** Checksummed address. */
      readonly feed: `0x${string}`;
    })
  | (LiveRateTimes & {
      /** JSON over HTTP. */
      readonly kind: "http";
      /** May hold credentials. */
      readonly url: string;
      /** JSON pointer (RFC 6901) to the rate. */
      readonly pointer: string;
    });

interface LiveRateTimes {
  /** A value that is older is not used. */
  readonly maxAgeMs: number;
  /** Between two questions; less than `maxAgeMs`. */
  readonly refreshMs: number;
}

export interface JobPolicy {
  /** u64 */
  readonly serviceId: bigint;
  /** u32 */
  readonly jobIndex: number;
  readonly invocationMode: "disabled" | "public_paid" | "restricted_paid";
  /** Present exactly when restricted. */
  readonly restriction?: JobRestriction;
}

export interface JobRestriction {
  readonly authMode: "payer_is_caller" | "delegated_caller_signature";
  readonly chainRpcUrl: string;
  /** Checksummed address. */
  readonly chainContract: `0x${string}`;
  /** Seconds for which a permission that was found may be used again; 0 asks the chain every time. */
  readonly permissionCacheSecs: number;
}

export interface WebhooksConfig {
  readonly bindAddress: TcpAddress;
  readonly maxBodyBytes: number;
  /** Whose `X-Forwarded-For` is believed. Default: nobody's. */
  readonly trustedProxies?: readonly IpRange[];
  readonly endpoints: readonly WebhookEndpoint[];
}

export interface WebhookEndpoint {
  readonly path: string;
  /** u64 */
  readonly jobId: bigint;
  readonly auth: WebhookAuth;
  /** Absent: every request starts a job. */
  readonly dedupe?: WebhookDedupe;
  readonly challenge?: WebhookChallenge;
  /** Authentic requests. */
  readonly rateLimitPerSecond?: number;
  /** Absent: from anywhere. */
  readonly allowCidrs?: readonly IpRange[];
  readonly name?: string;
}

/** What a sender has to know. Where there are `secrets`, any of them is enough, and the first is the current one. */
export type WebhookAuth =
  | { readonly mode: "none" }
  | {
      readonly mode: "bearer" | "hmac-sha256" | "github" | "shopify" | "url-token";
      readonly secrets: readonly WebhookSecret[];
    }
  | {
      readonly mode: "api-key";
      readonly secrets: readonly WebhookSecret[];
      /** Lower case. */
      readonly header: string;
    }
  | {
      readonly mode: "standard-webhooks" | "svix" | "stripe" | "slack";
      readonly secrets: readonly WebhookSecret[];
      /** How far the time of signing may be from now, in the past or in the future. */
      readonly toleranceSecs: number;
    };

export interface WebhookSecret {
  /** For logs. */
  readonly name: string;
  readonly secret: string;
}

/** By what a repeated delivery is known, and for how long. */
export type WebhookDedupe = { readonly windowMs: number } & (
  | {
      /** The sender's own delivery id. */
      readonly by: "id";
    }
  | {
      readonly by: "header";
      /** Lower case. */
      readonly header: string;
    }
  | { readonly by: "body" }
);

/** A handshake: a query parameter that the sender wants back before it sends anything else. */
export interface WebhookChallenge {
  readonly parameter: string;
  readonly method: "GET" | "POST";
  /** Another query parameter, and what it must hold. */
  readonly verify?: { readonly parameter: string; readonly token: string };
}

export interface PricingEngineConfig {
  /** Without a trailing slash. */
  readonly url: string;
  readonly bindAddress: TcpAddress;
  /** Leading zero bits of the proofs of work that the engine asks for. */
  readonly proofOfWorkBits: number;
  /** Absent: quotes cannot be checked, and so cannot be paid. */
  readonly signing?: QuoteSigning;
}

/** By what the operator's quotes are known: EIP-712 domain and signer. */
export interface QuoteSigning {
  readonly chainId: number;
  /** Checksummed address. */
  readonly verifyingContract: `0x${string}`;
  /** Checksummed address. */
  readonly operatorAddress: `0x${string}`;
}
