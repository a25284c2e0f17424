import type { Logger } from "pino";
import type { FacilitatorConfig } from "../../config/config.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Methods } from "../methods/methods.ts";
import type {
  Facilitator,
  FacilitatorRequest,
  KindExtra,
  PaymentKind,
  SettlementAnswer,
  Verification,
} from "./facilitator.ts";
import { RemoteFacilitator } from "./remote-facilitator.ts";

/** Verdict, with the facilitator that gave it. */
export type NamedVerification = Verification & { readonly facilitator: string };

/** The configured facilitators. */
export interface Facilitators extends BackgroundService {
  /** Uses the secrets of these configurations from now on, which are otherwise as they were. */
  reload(configs: readonly FacilitatorConfig[]): void;
  /** @throws GatewayError `facilitator_unavailable`, `settler_unfunded` when none gives a verdict */
  verify(request: FacilitatorRequest): Promise<NamedVerification>;
  /**
   * Asks one facilitator to settle. Never throws.
   * @param name as `verify` returned it; absent for a payment that was paid before
   */
  settle(request: FacilitatorRequest, name?: string): Promise<SettlementAnswer>;
  /** Returns the facilitator to ask to settle after others did not; undefined when none is left. */
  next(request: FacilitatorRequest, asked: readonly string[]): string | undefined;
  /**
   * Notes whether a facilitator that answered did settle. It did not if another one settled instead, or if it says that
   * it settled, and the chain does not show it.
   */
  noteSettlement(name: string, isSettled: boolean): void;
  /** Returns the x402 extensions that the facilitator lists which verifies on this CAIP-2 network. */
  extensionsOf(network: string): readonly string[];
  /** Returns the `extra` of a kind of payment from the facilitator that verifies it; undefined while none is known to accept the kind. */
  extraOf(kind: PaymentKind): KindExtra | undefined;
  /** Returns the account that settles by the scheme of ceilings on this CAIP-2 network; undefined while none is known. */
  settlerOn(network: string): string | undefined;
}

export interface FacilitatorsOptions {
  /** Ordered as they are asked; at least one. */
  readonly configs: readonly FacilitatorConfig[];
  /** Longest time of one call. */
  readonly timeoutMs: number;
  /** Time after which the next one is asked to verify too, while the one before has not answered. */
  readonly verifyPatienceMs: number;
  /** Reads `/supported` of a single facilitator too. */
  readonly readsSupported: boolean;
  /** Have the versions of x402 whose names of networks facilitators may use, and the scheme of ceilings. */
  readonly methods: Pick<Methods, "versions" | "ceilingScheme">;
  /** The facilitator in this process, if one of `configs` is. */
  readonly inProcess: (Facilitator & BackgroundService) | undefined;
  /** For durations. */
  readonly clock: Clock;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** Opens the facilitators of a configuration that has several. */
export type OpenFacilitators = (options: FacilitatorsOptions) => Facilitators;

export function openFacilitator(
  config: FacilitatorConfig,
  { inProcess, timeoutMs, methods: { versions }, telemetry }: FacilitatorsOptions,
): Facilitator {
  if (config.kind === "remote") return new RemoteFacilitator({ ...config, timeoutMs, versions, telemetry });
  if (inProcess === undefined)
    throw new Error(`the configuration has the facilitator ${config.name}, and none was passed`);
  return inProcess;
}

/** Uses the secrets of a configuration from now on. */
export function reloadFacilitator(
  facilitator: Facilitator | undefined,
  config: FacilitatorConfig | undefined,
): void {
  if (config?.kind === "remote" && facilitator instanceof RemoteFacilitator) facilitator.reload(config);
}

/**
 * Refuses a payment that no facilitator takes.
 * @param isOfNone each facilitator is known to take other payments alone
 */
export function noFacilitator({ requirements }: FacilitatorRequest, isOfNone: boolean): GatewayError {
  if (isOfNone && requirements.extra?.feePayer !== undefined)
    return new GatewayError(
      "payment_mismatch",
      "The fee payer of the payment is not that of an offer here: sign for a fresh offer. Nothing was charged.",
    );
  return new GatewayError(
    "facilitator_unavailable",
    "No facilitator settles payments of this kind now. Nothing was charged: try again, or pay in another way.",
    { headers: { "retry-after": "2" } },
  );
}

export function isUnfunded(error: unknown): boolean {
  return error instanceof GatewayError && error.code === "settler_unfunded";
}
