import type { Logger } from "pino";
import type { FacilitatorConfig } from "../../config/config.ts";
import { Backoff } from "../../core/backoff.ts";
import type { CeilingScheme } from "../wire/offer.ts";
import {
  type Facilitator,
  type FacilitatorRequest,
  type KindExtra,
  type PaymentKind,
  RateLimited,
  type SettlementAnswer,
  type Supported,
  takesNetwork,
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

/** Failures in a row after which the log says that the facilitator fails. */
const MAX_FAILURES = 3;

/** The facilitator of a configuration with a single facilitator. It is called whatever kinds of payment it lists. */
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
    if (!this.#kinds.maySettle(request)) throw noFacilitator(request, true);
    try {
      const verification = await this.#facilitator.verify(request);
      this.#note("verify", true);
      if (verification.kind === "invalid") this.#kinds.readSoon();
      return { ...verification, facilitator: this.#facilitator.name };
    } catch (error) {
      if (!isUnfunded(error)) this.#note("verify", false);
      throw error;
    }
  }

  /** Requests settlement from the facilitator, whatever its name was, because it may have moved to another address. */
  async settle(request: FacilitatorRequest): Promise<SettlementAnswer> {
    const answer = await this.#facilitator.settle(request);
    // A refusal may be the payer's fault.
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

  facilitatorAddressOn(network: string): string | undefined {
    return (this.#networks?.includes(network) ?? true)
      ? this.#kinds.facilitatorAddressOn(network)
      : undefined;
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

/** Time for which the answer of `/supported` is used. */
const FRESH_MS = 300_000;
const RETRIES = { firstMs: 1_000, longestMs: 60_000 };
/** Shortest time until `/supported` is read again after a refusal. */
const SOON_MS = 5_000;

interface Parts {
  readonly facilitator: Facilitator;
  /** Scheme whose payments a single account settles; undefined if this build has no such scheme. */
  readonly scheme: CeilingScheme | undefined;
  readonly logger: Logger;
  /** Called after each query, unless the facilitator limited the rate. */
  readonly onRead: (isAnswered: boolean) => void;
}

/** Kinds of payment that one facilitator supports: the answer of its `/supported`, read from time to time. */
export class SupportedKinds {
  readonly #parts: Parts;
  readonly #retries = new Backoff(RETRIES);
  #answer: Supported | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isSoon = false;
  #isStopped = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Queries `/supported` now and from time to time. Does not wait for the answer. */
  startPolling(): void {
    void this.#poll();
  }

  /**
   * Queries `/supported` again within seconds, once for all refusals until then. A facilitator may refuse kinds of payment
   * that it has stopped supporting since the last query, for example because it replaced an account.
   */
  readSoon(): void {
    if (this.#timer === undefined || this.#isSoon || this.#isStopped) return;
    this.#isSoon = true;
    this.#askAfter(SOON_MS);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** The last answer; undefined until there is an answer. */
  get answer(): Supported | undefined {
    return this.#answer;
  }

  /** Returns false if the facilitator is known not to accept payments of this kind. */
  maySupport(kind: PaymentKind): boolean {
    return this.#answer === undefined || this.#find(kind) !== undefined;
  }

  /**
   * Returns the `extra` that the facilitator lists for a kind of payment; undefined while the facilitator is not known to
   * accept the kind.
   */
  extraOf(kind: PaymentKind): KindExtra | undefined {
    const found = this.#find(kind);
    return found && (found.extra ?? {});
  }

  /**
   * Returns the account that settles by the scheme of ceilings on a network; undefined if there is no such account, or it is
   * not known yet.
   */
  facilitatorAddressOn(network: string): string | undefined {
    const { scheme } = this.#parts;
    if (scheme === undefined) return undefined;
    return scheme.facilitatorAddressIn(this.extraOf({ x402Version: 2, scheme: scheme.name, network }));
  }

  /** Returns false if the facilitator is known to be unable to settle the payment that the payer signed. */
  maySettle({ requirements, payload }: FacilitatorRequest): boolean {
    const { scheme } = this.#parts;
    const { network, extra } = requirements;
    const kind = { x402Version: payload.x402Version, scheme: requirements.scheme, network };
    // The payer signed a transaction whose fees this account pays, so only its facilitator can complete it.
    const own = extra?.feePayer === undefined ? undefined : this.extraOf(kind)?.feePayer;
    if (own !== undefined && own !== extra?.feePayer && !this.#signs(network, extra?.feePayer)) return false;
    if (requirements.scheme !== scheme?.name) return true;
    const known = this.facilitatorAddressOn(network);
    // The payer of a ceiling signed the account that settles. A facilitator whose account is not known yet may have it.
    return known === undefined || known.toLowerCase() === scheme.facilitatorAddressIn(extra)?.toLowerCase();
  }

  /** Returns true if the facilitator lists an account as a signer on a network. */
  #signs(network: string, account: unknown): boolean {
    const { signers = {} } = this.#answer ?? {};
    return Object.entries(signers).some(
      ([listed, accounts]) => takesNetwork([listed], network) && accounts.some((one) => one === account),
    );
  }

  #find({ x402Version, scheme, network }: PaymentKind) {
    return this.#answer?.kinds.find(
      (kind) =>
        kind.x402Version === x402Version && kind.scheme === scheme && takesNetwork([kind.network], network),
    );
  }

  async #poll(): Promise<void> {
    this.#timer = undefined;
    const delayMs = await this.#read();
    this.#isSoon = false;
    if (!this.#isStopped) this.#askAfter(delayMs);
  }

  #askAfter(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#poll(), delayMs);
    this.#timer.unref();
  }

  /** @returns the time until the next query */
  async #read(): Promise<number> {
    const { facilitator, logger, onRead } = this.#parts;
    try {
      this.#answer = await facilitator.supported();
    } catch (error) {
      logger.debug({ err: error, facilitator: facilitator.name }, "could not read /supported");
      const waitMs = this.#retries.next();
      // A facilitator that limits the rate is working, so its last answer stays in use.
      if (error instanceof RateLimited) return Math.max(error.retryAfterMs, waitMs);
      onRead(false);
      return waitMs;
    }
    this.#retries.reset();
    onRead(true);
    return FRESH_MS;
  }
}
