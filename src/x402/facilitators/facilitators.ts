import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { FacilitatorConfig } from "../../config/config.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { caip2Network } from "../wire/v1-networks.ts";
import type {
  Facilitator,
  FacilitatorRequest,
  PaymentKind,
  SettlementAnswer,
  Verification,
} from "./facilitator.ts";
import { FacilitatorHealth } from "./health.ts";
import { RemoteFacilitator } from "./remote-facilitator.ts";

interface Parts {
  /** Ordered as they are asked; at least one. */
  readonly configs: readonly FacilitatorConfig[];
  /** Longest time of one call. */
  readonly timeoutMs: number;
  /** Time after which the next one is asked to verify too, while the one before has not answered. */
  readonly verifyPatienceMs: number;
  /** Reads `/supported` of a single facilitator too. */
  readonly readsSupported: boolean;
  /** Takes the place of the local one in `configs`. */
  readonly local: (Facilitator & BackgroundService) | undefined;
  /** For durations. */
  readonly clock: Clock;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

interface Listed {
  readonly facilitator: Facilitator;
  /** CAIP-2; absent: those of its `/supported`. */
  readonly networks?: readonly string[];
  readonly health: FacilitatorHealth;
}

/** Verdict, with the facilitator that gave it. */
type NamedVerification = Verification & { readonly facilitator: string };

/**
 * The configured facilitators, in order. Verifying is harmless, so whoever answers first counts. Settling is not: only
 * the caller can know that another one may be asked.
 */
export class Facilitators implements BackgroundService {
  readonly #parts: Parts;
  readonly #listed: readonly Listed[];

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#listed = parts.configs.map((config) => this.#open(config));
  }

  /** Uses the secrets of these configurations from now on, which are otherwise as they were. */
  reload(configs: readonly FacilitatorConfig[]): void {
    for (const [i, config] of configs.entries()) {
      const facilitator = this.#listed[i]?.facilitator;
      if (config.kind === "remote" && facilitator instanceof RemoteFacilitator) facilitator.reload(config);
    }
  }

  async start(): Promise<void> {
    const { configs, local, readsSupported } = this.#parts;
    await local?.start();
    if (configs.length === 1 && !readsSupported) return;
    for (const { health } of this.#listed) health.startPolling();
  }

  async stop(): Promise<void> {
    for (const { health } of this.#listed) health.stop();
    await this.#parts.local?.stop();
  }

  /**
   * Asks the first facilitator that is healthy and supports the payment; the next one if it fails or takes long.
   * @throws GatewayError `facilitator_unavailable`, `settler_unfunded` when none gives a verdict
   */
  async verify(request: FacilitatorRequest): Promise<NamedVerification> {
    const [first, ...others] = this.#candidates(request);
    if (first !== undefined) return this.#firstVerdict(request, first, others);
    throw new GatewayError(
      "facilitator_unavailable",
      "No facilitator settles payments of this kind now. Nothing was charged: try again, or pay in another way.",
      { headers: { "retry-after": "2" } },
    );
  }

  /**
   * Asks one facilitator to settle. Never throws.
   * @param name as {@link Facilitators.verify} returned it; absent for a payment that was paid before
   */
  async settle(request: FacilitatorRequest, name?: string): Promise<SettlementAnswer> {
    const listed = this.#named(name);
    if (listed === undefined) {
      return { kind: "no_answer", reason: `facilitator ${name} is no longer configured` };
    }
    listed.health.noteAsked();
    const answer = await listed.facilitator.settle(request);
    // A no may be the payer's fault.
    if (answer.kind === "no_answer") listed.health.failed("settle");
    return answer;
  }

  /** Returns the facilitator to ask to settle after others did not; undefined when none is left. */
  next(request: FacilitatorRequest, asked: readonly string[]): string | undefined {
    const names = this.#candidates(request).map(({ facilitator }) => facilitator.name);
    return names.find((name) => !asked.includes(name));
  }

  /**
   * Notes whether a facilitator that answered did settle. It did not if another one settled instead, or if it says that
   * it settled, and the chain does not show it.
   */
  noteSettlement(name: string, isSettled: boolean): void {
    const health = this.#named(name)?.health;
    if (isSettled) health?.succeeded("settle");
    else health?.failed("settle");
  }

  /** Returns the x402 extensions that the facilitator lists which verifies on this CAIP-2 network. */
  extensionsOf(network: string): readonly string[] {
    const kind = { x402Version: 2, scheme: "exact", network };
    const candidates = this.#supporting(kind, network).filter(({ health }) => health.supported !== undefined);
    const first = candidates.find(({ health }) => health.isReady()) ?? candidates[0];
    return first?.health.supported?.extensions ?? [];
  }

  /** Returns the address that settles payments by use on this CAIP-2 network; undefined while none is known. */
  settlesByUse(network: string): string | undefined {
    const addresses = this.#listed
      .filter(({ networks }) => networks?.includes(network) ?? true)
      .flatMap(({ health }) => {
        const address = health.addressByUse(network);
        return address === undefined ? [] : { health, address };
      });
    return (addresses.find(({ health }) => health.isReady()) ?? addresses[0])?.address;
  }

  #open(config: FacilitatorConfig): Listed {
    const { local, timeoutMs, telemetry, clock, logger } = this.#parts;
    if (config.kind === "local") {
      if (local === undefined)
        throw new Error("the configuration has a local facilitator, and none was passed");
      return { facilitator: local, health: new FacilitatorHealth({ facilitator: local, clock, logger }) };
    }
    const { networks } = config;
    const facilitator = new RemoteFacilitator({ ...config, timeoutMs, telemetry });
    const health = new FacilitatorHealth({ facilitator, clock, logger });
    return { facilitator, health, ...(networks && { networks }) };
  }

  #named(name: string | undefined): Listed | undefined {
    // A single facilitator may have moved to another address.
    if (this.#listed.length === 1 || name === undefined) return this.#listed[0];
    return this.#listed.find(({ facilitator }) => facilitator.name === name);
  }

  /** Returns those that may take the payment, healthy ones first. */
  #candidates({ payload, requirements }: FacilitatorRequest): readonly Listed[] {
    const { scheme, network, extra } = requirements;
    const kind = { x402Version: payload.x402Version, scheme, network };
    const isBound = ({ health }: Listed) =>
      scheme !== "upto" || isSameAddress(health.addressByUse(network), extra?.facilitatorAddress);
    const candidates = this.#supporting(kind, caip2Network(network) ?? network).filter(isBound);
    return [
      ...candidates.filter(({ health }) => health.isReady()),
      ...candidates.filter(({ health }) => !health.isReady()),
    ];
  }

  #supporting(kind: PaymentKind, network: string): readonly Listed[] {
    // A single facilitator is asked, whatever it lists.
    if (this.#listed.length === 1) return this.#listed;
    return this.#listed.filter(
      ({ networks, health }) => (networks?.includes(network) ?? true) && health.maySupport(kind),
    );
  }

  async #firstVerdict(
    request: FacilitatorRequest,
    asked: Listed,
    others: readonly Listed[],
  ): Promise<NamedVerification> {
    const verdict = this.#verifyAt(request, asked);
    const [next, ...rest] = others;
    if (next === undefined) return verdict;
    const state = await Promise.race([
      verdict.then(
        () => "answered",
        () => "failed",
      ),
      sleep(this.#parts.verifyPatienceMs, "slow", { ref: false }),
    ]);
    if (state === "answered") return verdict;
    if (state === "slow") asked.health.failed("verify");
    const otherVerdict = this.#firstVerdict(request, next, rest);
    try {
      return await Promise.any([verdict, otherVerdict]);
    } catch (error) {
      throw mostTelling((error as AggregateError).errors);
    }
  }

  async #verifyAt(request: FacilitatorRequest, { facilitator, health }: Listed): Promise<NamedVerification> {
    health.noteAsked();
    try {
      const verification = await facilitator.verify(request);
      health.succeeded("verify");
      return { ...verification, facilitator: facilitator.name };
    } catch (error) {
      if (!isUnfunded(error)) health.failed("verify", error);
      throw error;
    }
  }
}

/** The payer has signed for one address: no other can settle. One that is not known yet may be it. */
function isSameAddress(known: string | undefined, signed: unknown): boolean {
  return known === undefined || known.toLowerCase() === String(signed).toLowerCase();
}

/** Prefers the error that names a reason that the operator can remove. */
function mostTelling(errors: readonly unknown[]): unknown {
  return errors.find(isUnfunded) ?? errors[0];
}

function isUnfunded(error: unknown): boolean {
  return error instanceof GatewayError && error.code === "settler_unfunded";
}
