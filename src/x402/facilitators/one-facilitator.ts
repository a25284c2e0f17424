import type { FacilitatorConfig } from "../../config/config.ts";
import type {
  Facilitator,
  FacilitatorRequest,
  KindExtra,
  PaymentKind,
  SettlementAnswer,
} from "./facilitator.ts";
import {
  type Facilitators,
  type FacilitatorsOptions,
  isUnfunded,
  type NamedVerification,
  noFacilitator,
  openFacilitator,
  reloadFacilitator,
} from "./facilitators.ts";
import { SupportedKinds } from "./supported-kinds.ts";

/** Failures in a row after which the log says that the facilitator fails. */
const MAX_FAILURES = 3;

/** The facilitator of a configuration that has one. It is asked, whatever it lists. */
export class OneFacilitator implements Facilitators {
  readonly #options: FacilitatorsOptions;
  readonly #facilitator: Facilitator;
  readonly #kinds: SupportedKinds;
  readonly #networks: readonly string[] | undefined;
  /** Number of failures in a row, by operation. */
  readonly #failures = { supported: 0, verify: 0, settle: 0 };

  constructor(config: FacilitatorConfig, options: FacilitatorsOptions) {
    this.#options = options;
    this.#facilitator = openFacilitator(config, options);
    this.#networks = config.kind === "remote" ? config.networks : undefined;
    this.#kinds = new SupportedKinds({
      facilitator: this.#facilitator,
      scheme: options.methods.ceilingScheme,
      logger: options.logger,
      onRead: (isAnswered) => this.#note("supported", isAnswered),
    });
  }

  reload([config]: readonly FacilitatorConfig[]): void {
    reloadFacilitator(this.#facilitator, config);
  }

  async start(): Promise<void> {
    await this.#options.inProcess?.start();
    if (this.#options.readsSupported) this.#kinds.startPolling();
  }

  async stop(): Promise<void> {
    this.#kinds.stop();
    await this.#options.inProcess?.stop();
  }

  async verify(request: FacilitatorRequest): Promise<NamedVerification> {
    if (!this.#kinds.maySettle(request)) throw noFacilitator();
    try {
      const verification = await this.#facilitator.verify(request);
      this.#note("verify", true);
      return { ...verification, facilitator: this.#facilitator.name };
    } catch (error) {
      if (!isUnfunded(error)) this.#note("verify", false);
      throw error;
    }
  }

  /** Asks the facilitator, whatever its name was: it may have moved to another address. */
  async settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    const answer = await this.#facilitator.settle(request);
    // A no may be the payer's fault.
    if (answer.kind === "no_answer") this.#note("settle", false);
    return answer;
  }

  next(request: FacilitatorRequest, asked: readonly string[]): string | undefined {
    const { name } = this.#facilitator;
    return this.#kinds.maySettle(request) && !asked.includes(name) ? name : undefined;
  }

  noteSettlement(_name: string, isSettled: boolean): void {
    this.#note("settle", isSettled);
  }

  extensionsOf(): readonly string[] {
    return this.#kinds.answer?.extensions ?? [];
  }

  extraOf(kind: PaymentKind): KindExtra | undefined {
    return (this.#networks?.includes(kind.network) ?? true) ? this.#kinds.extraOf(kind) : undefined;
  }

  settlerOn(network: string): string | undefined {
    return (this.#networks?.includes(network) ?? true) ? this.#kinds.settlerOn(network) : undefined;
  }

  #note(operation: "supported" | "verify" | "settle", works: boolean): void {
    const isFailing = () => Object.values(this.#failures).some((failures) => failures >= MAX_FAILURES);
    const wasFailing = isFailing();
    this.#failures[operation] = works ? 0 : this.#failures[operation] + 1;
    if (wasFailing === isFailing()) return;
    const { logger } = this.#options;
    const facilitator = this.#facilitator.name;
    if (wasFailing) logger.info({ facilitator }, "the facilitator works again");
    else logger.warn({ facilitator }, "the facilitator fails");
  }
}
