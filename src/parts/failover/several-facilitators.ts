import { setTimeout as sleep } from "node:timers/promises";
import type { FacilitatorConfig } from "../../config/config.ts";
import type {
  Facilitator,
  FacilitatorRequest,
  KindExtra,
  PaymentKind,
  SettlementAnswer,
} from "../../x402/facilitators/facilitator.ts";
import {
  type Facilitators,
  type FacilitatorsOptions,
  isUnfunded,
  type NamedVerification,
  noFacilitator,
  openFacilitator,
  reloadFacilitator,
} from "../../x402/facilitators/facilitators.ts";
import { FacilitatorHealth } from "./health.ts";

interface Listed {
  readonly facilitator: Facilitator;
  /** CAIP-2. Undefined if the networks are read from its `/supported`. */
  readonly networks?: readonly string[] | undefined;
  readonly health: FacilitatorHealth;
}

/**
 * Several facilitators, in order. Verification has no side effects, so the first answer is used. Settlement has side
 * effects, so only the caller may decide to try another facilitator.
 */
export class SeveralFacilitators implements Facilitators {
  readonly #parts: FacilitatorsOptions;
  readonly #listed: readonly Listed[];

  constructor(parts: FacilitatorsOptions) {
    this.#parts = parts;
    this.#listed = parts.configs.map((config) => this.#open(config));
  }

  reload(configs: readonly FacilitatorConfig[]): void {
    for (const [i, config] of configs.entries()) reloadFacilitator(this.#listed[i]?.facilitator, config);
  }

  async start(): Promise<void> {
    await this.#parts.inProcess?.start();
    for (const { health } of this.#listed) health.startPolling();
  }

  async stop(): Promise<void> {
    for (const { health } of this.#listed) health.stop();
    await this.#parts.inProcess?.stop();
  }

  /**
   * Calls the first facilitator that is healthy and supports the payment, and then the next one if the first fails or
   * takes long.
   */
  async verify(request: FacilitatorRequest): Promise<NamedVerification> {
    const [first, ...others] = this.#candidates(request);
    if (first !== undefined) return this.#firstVerdict(request, first, others);
    throw noFacilitator(request, this.#takersOf(request).length > 0);
  }

  async settle(request: FacilitatorRequest, name?: string): Promise<SettlementAnswer> {
    const listed = this.#named(name);
    if (listed === undefined) {
      return { kind: "no_answer", reason: `facilitator ${name} is no longer configured` };
    }
    listed.health.noteAsked();
    const answer = await listed.facilitator.settle(request);
    // A refusal may be the payer's fault.
    if (answer.kind === "no_answer") listed.health.failed("settle");
    return answer;
  }

  next(request: FacilitatorRequest, asked: readonly string[]): string | undefined {
    const names = this.#candidates(request).map(({ facilitator }) => facilitator.name);
    return names.find((name) => !asked.includes(name));
  }

  noteSettlement(name: string, isSettled: boolean): void {
    const health = this.#named(name)?.health;
    if (isSettled) health?.succeeded("settle");
    else health?.failed("settle");
  }

  extensionsOf(network: string): readonly string[] {
    const kind = { x402Version: 2, scheme: "exact", network };
    const candidates = this.#supporting(kind, network).filter(({ health }) => health.supported !== undefined);
    const first = candidates.find(({ health }) => health.isReady()) ?? candidates[0];
    return first?.health.supported?.extensions ?? [];
  }

  extraOf(kind: PaymentKind): KindExtra | undefined {
    const candidates = this.#supporting(kind, kind.network).filter(({ health }) => health.extraOf(kind));
    const first = candidates.find(({ health }) => health.isReady()) ?? candidates[0];
    return first?.health.extraOf(kind);
  }

  facilitatorAddressOn(network: string): string | undefined {
    const addresses = this.#listed
      .filter(({ networks }) => networks?.includes(network) ?? true)
      .flatMap(({ health }) => {
        const address = health.facilitatorAddressOn(network);
        return address === undefined ? [] : { health, address };
      });
    return (addresses.find(({ health }) => health.isReady()) ?? addresses[0])?.address;
  }

  #open(config: FacilitatorConfig): Listed {
    const { clock, logger, methods } = this.#parts;
    const facilitator = openFacilitator(config, this.#parts);
    const health = new FacilitatorHealth({ facilitator, scheme: methods.ceilingScheme, clock, logger });
    const networks = config.kind === "remote" ? config.networks : undefined;
    return { facilitator, health, networks };
  }

  #named(name: string | undefined): Listed | undefined {
    if (name === undefined) return this.#listed[0];
    return this.#listed.find(({ facilitator }) => facilitator.name === name);
  }

  /** Returns the facilitators that accept payments of this kind, as far as is known. */
  #takersOf({ payload, requirements }: FacilitatorRequest): readonly Listed[] {
    const { scheme, network } = requirements;
    const kind = { x402Version: payload.x402Version, scheme, network };
    return this.#supporting(kind, this.#parts.methods.versions.networkOf(network));
  }

  /** Returns the facilitators that may take the payment, healthy facilitators first. */
  #candidates(request: FacilitatorRequest): readonly Listed[] {
    const candidates = this.#takersOf(request).filter(({ health }) => health.maySettle(request));
    return [
      ...candidates.filter(({ health }) => health.isReady()),
      ...candidates.filter(({ health }) => !health.isReady()),
    ];
  }

  #supporting(kind: PaymentKind, network: string): readonly Listed[] {
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
      if (verification.kind === "invalid") health.refused();
      return { ...verification, facilitator: facilitator.name };
    } catch (error) {
      if (!isUnfunded(error)) health.failed("verify", error);
      throw error;
    }
  }
}

/** Prefers the error that names a reason that the operator can remove. */
function mostTelling(errors: readonly unknown[]): unknown {
  return errors.find(isUnfunded) ?? errors[0];
}
