import type * as z from "zod";
import type { NetworkKind } from "../core/addresses.ts";
import type { TransferMethod } from "../core/payment.ts";
import type { Place } from "./mistakes.ts";
import type { TokenPreset } from "./token-presets.ts";
import type { TokenTable } from "./x402.ts";

/** A transfer method as the configuration sees it. */
export interface TokenMethod extends TransferMethod {
  /** The method pays any token: a token without EIP-3009, and, as in the SDK, a token whose entry names no method. */
  readonly paysAny?: true;
  /** Networks that only this method pays on. Absent: EVM chains. */
  readonly networks?: NetworkKind;
  /** Keys that a token has if the method pays it, with their defaults. The core has the other keys. */
  readonly keys?: { readonly shape: z.ZodRawShape; readonly defaults: Readonly<Record<string, unknown>> };
  /** Presets for tokens on {@link networks}. */
  readonly presets?: readonly TokenPreset[];
  /** Checks a token that is paid by the method. */
  check?(token: TokenTable, context: TokenContext): void;
}

/** Surroundings of an accepted token, for the check of its method. */
export interface TokenContext {
  readonly place: Place;
  /** Source of the token's method: its entry, its preset, or neither. */
  readonly namedBy: "entry" | "preset" | undefined;
  /** All accepted tokens. */
  readonly tokens: readonly (TokenTable | undefined)[];
  /** True if the file has a job that is charged in part, as not every method can. */
  readonly isSoldInPart: boolean;
}
