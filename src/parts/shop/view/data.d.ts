/** The values that the shop's pages read, as the x402 listener sends them. */

import type { PricedToken, Requirements } from "../../../page/tools/chains.ts";

/** A job that is for sale. */
export interface Job {
  readonly name?: string;
  readonly title?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly mode?: string;
  /** Reason why this page cannot buy the job. */
  readonly not_by_page?: string;
  readonly max_run_secs?: number;
  readonly input?: {
    /** Undefined if the job takes no body. */
    readonly content_type?: string;
    readonly schema?: unknown;
    readonly example?: unknown;
    /** JSON Schemas of the parameters of a route's path and of its query. */
    readonly path?: unknown;
    readonly query?: unknown;
  };
  readonly output?: { readonly content_type: string };
  /** Price in dollars; absent for a price in the chain's own unit. */
  readonly price?: string;
  /** Prices of a job whose price depends on the request, in dollars. */
  readonly price_range?: { readonly min: string; readonly max: string; readonly rule: string };
  /** Sentences for buyers, such as about a job that fails. */
  readonly conditions?: readonly string[];
  readonly settlement_options: readonly Option[];
  /** Methods and path of a job that is sold at a route of its own. */
  readonly route?: string;
  readonly x402_endpoint: string;
}

/** Token that pays for a job, with the amount. */
export interface Option extends PricedToken {
  /** Scheme of x402. This page pays only offers of `exact`; the amount of any other scheme is a ceiling. */
  readonly scheme: string;
  readonly asset: string;
  /** Undefined means EIP-3009. */
  readonly transfer_method?: string;
}

export interface PaymentRequired {
  readonly x402Version: number;
  readonly resource?: unknown;
  readonly accepts: readonly Requirements[];
  readonly extensions?: Readonly<Record<string, { readonly info?: object }>>;
}

/** JSON response of the job's route. */
export interface Answer {
  readonly error?: string;
  readonly code?: string;
  readonly charged?: boolean | "unknown";
  readonly retryable?: boolean;
  readonly invalid?: readonly InputProblem[];
  readonly call_id?: number;
  readonly receipt?: string;
  readonly access_token?: string;
  readonly transaction?: string;
}

export interface InputProblem {
  /** JSON pointer into the body. */
  readonly path: string;
  readonly message: string;
}

/** State of a paid call. */
export interface CallState {
  readonly state: "queued" | "running" | "succeeded" | "failed";
  readonly attempt?: number;
  readonly progress?: { readonly percent?: number; readonly text?: string };
  readonly reason?: string;
  /** HTTP status of the result. A failed call with a status has a result. */
  readonly status?: number;
}

/** Wallet with the interface of EIP-1193. */
export interface Provider {
  request(call: { readonly method: string; readonly params?: readonly unknown[] }): Promise<unknown>;
}

/** A wallet for EVM chains. */
export interface EvmWallet {
  readonly name: string;
  readonly provider: Provider;
}
