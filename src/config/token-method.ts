import type * as z from "zod";
import type { NetworkKind } from "../core/addresses.ts";
import type { TransferMethod } from "../core/payment.ts";
import type { Place } from "./mistakes.ts";
import type { TokenPreset } from "./token-presets.ts";
import type { TokenTable } from "./x402.ts";

/** A transfer method as the configuration sees it. */
export interface TokenMethod extends TransferMethod {
  /** True if the method pays any token: a token without EIP-3009, and, as in the SDK, a token whose entry names no method. */
  readonly paysAny?: true;
  /** Networks on which only this method pays. Undefined means EVM chains. */
  readonly networks?: NetworkKind;
  /** Keys, with their defaults, of tokens that the method pays, in addition to the core's keys. */
  readonly keys?: { readonly shape: z.ZodRawShape; readonly defaults: Readonly<Record<string, unknown>> };
  /** Presets for tokens on {@link networks}. */
  readonly presets?: readonly TokenPreset[];
  /** Checks a token that is paid by the method. */
  check?(token: TokenTable, context: TokenContext): void;
}

/** Context of an accepted token, for the check of its method. */
export interface TokenContext {
  readonly place: Place;
  /** Source of the token's method: the token's entry or its preset. Undefined if the method is a default. */
  readonly namedBy: "entry" | "preset" | undefined;
  /** All accepted tokens. */
  readonly tokens: readonly (TokenTable | undefined)[];
  /** True if the runner names the charge of some job in the file. Not every method supports such a charge. */
  readonly isSoldInPart: boolean;
}
