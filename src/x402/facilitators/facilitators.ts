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

/** Verdict, with the name of the facilitator that gave it. */
export type NamedVerification = Verification & { readonly facilitator: string };

/** The configured facilitators. */
export interface Facilitators extends BackgroundService {
  /** Applies new secrets. Other settings of facilitators do not change on reload. */
  reload(configs: readonly FacilitatorConfig[]): void;
  /** @throws GatewayError `facilitator_unavailable`, `settler_unfunded` if no facilitator gives a verdict */
  verify(request: FacilitatorRequest): Promise<NamedVerification>;
  /**
   * Requests settlement from one facilitator. Never rejects.
   * @param name name that `verify` returned; undefined for a payment that was already paid
   */
  settle(request: FacilitatorRequest, name?: string): Promise<SettlementAnswer>;
  /** Returns the next facilitator to settle with after others did not settle; undefined if none is left. */
  next(request: FacilitatorRequest, asked: readonly string[]): string | undefined;
  /**
   * Records whether a facilitator that answered has settled. It has not if another facilitator settled instead, or if it
   * claims a settlement that the chain does not show.
   */
  noteSettlement(name: string, isSettled: boolean): void;
  /** Returns the x402 extensions listed by the facilitator that verifies on this CAIP-2 network. */
  extensionsOf(network: string): readonly string[];
  /**
   * Returns the `extra` of a kind of payment from the facilitator that verifies it; undefined while no facilitator is known
   * to accept the kind.
   */
  extraOf(kind: PaymentKind): KindExtra | undefined;
  /**
   * Returns the account that settles by the scheme of ceilings on this CAIP-2 network; undefined while no such account is
   * known.
   */
  facilitatorAddressOn(network: string): string | undefined;
}

export interface FacilitatorsOptions {
  /** At least one configuration, in the order in which the facilitators are called. */
  readonly configs: readonly FacilitatorConfig[];
  /** Longest time of one call. */
  readonly timeoutMs: number;
  /**
   * Time after which verification is also requested from the next facilitator, while the facilitator before it has not
   * answered.
   */
  readonly verifyPatienceMs: number;
  /** True to read `/supported` even of a single facilitator. */
  readonly readsSupported: boolean;
  /** Versions of x402, whose names of networks facilitators may use, and the scheme of ceilings. */
  readonly methods: Pick<Methods, "versions" | "ceilingScheme">;
  /** The facilitator in this process, if `configs` has one. */
  readonly inProcess: (Facilitator & BackgroundService) | undefined;
  /** Clock for durations. */
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
    throw new Error(
      `the configuration has the facilitator ${config.name}, but the program passed no facilitator of this process`,
    );
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
 * Makes the refusal of a payment that no facilitator accepts.
 * @param isOfNone true if all facilitators are known not to accept such payments
 */
export function noFacilitator({ requirements }: FacilitatorRequest, isOfNone: boolean): GatewayError {
  if (isOfNone && requirements.extra?.feePayer !== undefined)
    return new GatewayError(
      "payment_mismatch",
      "The fee payer of the payment is not the fee payer of an offer here: sign for a fresh offer. Nothing was charged.",
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
