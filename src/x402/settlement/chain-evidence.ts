import type { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { oneSpelling, type PaymentIntent, type PaymentKey } from "../../core/payment.ts";
import { NO_TELEMETRY, type Telemetry } from "../../core/telemetry.ts";
import type { Methods } from "../methods/methods.ts";
import type { AuthorizedPayment } from "./authorization.ts";
import type { Evidence, PaidEvidence } from "./payment-decision.ts";
import type { TokenEvidence } from "./token-evidence.ts";

/** Names a token. `network` is CAIP-2, `asset` in any letter case. */
type TokenName = Pick<PaymentKey, "network" | "asset">;

/** A token whose chain can be queried. */
interface WatchedToken {
  readonly evidence: TokenEvidence;
  readonly required: boolean;
}

/** Number of remembered payments that were observed once as unpaid. An evicted payment needs one more observation. */
const MAX_SIGHTINGS = 20_000;

/** Evidence of payments on the chains of tokens that have an `rpc_url`. */
export class ChainEvidence {
  /** Minimum time between the two observations that are required to declare a payment unpaid. */
  readonly secondLookAfterMs: number;
  readonly #methods: Methods;
  readonly #rpcTimeoutMs: number;
  readonly #telemetry: Telemetry;
  readonly #watched = new Map<string, WatchedToken>();
  /** First observation that showed a payment as unpaid, by fingerprint. */
  readonly #sightings = boundedCache<string, { readonly reason: string; readonly at: number }>(MAX_SIGHTINGS);

  /** @param parts `rpcTimeoutMs` is for one RPC call */
  constructor(parts: {
    readonly methods: Methods;
    readonly tokens: readonly AcceptedToken[];
    readonly rpcTimeoutMs: number;
    readonly secondLookAfterMs: number;
    readonly telemetry?: Telemetry;
  }) {
    this.secondLookAfterMs = parts.secondLookAfterMs;
    this.#methods = parts.methods;
    this.#rpcTimeoutMs = parts.rpcTimeoutMs;
    this.#telemetry = parts.telemetry ?? NO_TELEMETRY;
    this.watch(parts.tokens);
  }

  /** Adds a reloaded configuration's tokens. Removed tokens stay, because payments in them may be undecided. */
  watch(tokens: readonly AcceptedToken[]): void {
    for (const token of tokens) {
      const { rpcUrl } = token;
      if (rpcUrl === undefined) continue;
      // A token can have an entry for each transfer method. The stricter entry applies to both.
      const entries = tokens.filter((other) => tokenKey(other) === tokenKey(token));
      this.#watched.set(tokenKey(token), {
        evidence: this.#methods.watch({
          token: { ...token, rpcUrl },
          confirmations: BigInt(Math.max(...entries.map(({ confirmations }) => confirmations))),
          rpcTimeoutMs: this.#rpcTimeoutMs,
          telemetry: this.#telemetry,
        }),
        required: entries.some(({ requireOnchainConfirmation }) => requireOnchainConfirmation),
      });
    }
  }

  /** Returns true if the chain of this token can be queried. */
  covers(token: TokenName): boolean {
    return this.#watched.has(tokenKey(token));
  }

  /**
   * Connects to the chain of a token. @returns undefined if the chain cannot be queried @throws Error when the chain does
   * not answer
   */
  async connect(token: TokenName): Promise<Rpc | undefined> {
    return this.#evidenceOf(token)?.connect();
  }

  /**
   * Returns the time of the newest block at the last observation, in Unix milliseconds; undefined before the first
   * observation.
   */
  timeOf(token: TokenName): number | undefined {
    const secs = this.#evidenceOf(token)?.lastTime;
    return secs === undefined ? undefined : Number(secs) * 1_000;
  }

  /** Returns true if settlements of this token must be confirmed on chain. */
  isRequired(token: TokenName): boolean {
    return this.#watched.get(tokenKey(token))?.required ?? false;
  }

  /** See {@link TokenEvidence.startBlock}. */
  async startBlock(token: TokenName): Promise<bigint> {
    const evidence = this.#evidenceOf(token);
    if (evidence === undefined) throw new Error("this token has no rpc_url");
    return evidence.startBlock();
  }

  /** See {@link TokenEvidence.findEarlierUse}. @returns undefined also if the token has no chain to query */
  async findEarlierUse(
    payment: Omit<AuthorizedPayment, "fromBlock">,
  ): Promise<{ readonly transaction?: string } | undefined> {
    return this.#evidenceOf(payment.key)?.findEarlierUse(payment);
  }

  /**
   * Looks for the settlement of a payment. Never throws.
   *
   * Nodes behind one RPC address can disagree. So *not paid*, the costlier mistake, requires two observations {@link
   * secondLookAfterMs} apart.
   * @param transaction transaction that the facilitator named, which is read first
   */
  async look(intent: PaymentIntent, transaction?: string): Promise<Evidence> {
    const own = this.ownEvidence(intent);
    if (own !== undefined) return own;
    const evidence = this.#evidenceOf(intent.key);
    if (evidence === undefined) return { kind: "unknown", reason: "the token has no rpc_url" };
    try {
      const found = await evidence.look(intent, transaction);
      if (found.kind === "not_paid") return this.#secondLook(intent, found);
      this.#sightings.delete(intent.fingerprint);
      return found;
    } catch (error) {
      return { kind: "open", reason: `the chain could not be queried: ${firstLine(error)}`, isUnread: true };
    }
  }

  /** Returns the evidence of a payment that is paid by its journal entry alone; undefined for any other payment. */
  ownEvidence(intent: Pick<PaymentIntent, "transferMethod" | "payload">): PaidEvidence | undefined {
    return this.#methods.find(intent.transferMethod)?.evidenceOf?.(intent);
  }

  /** Returns further fields of a payment's settlement for clients. */
  fieldsOf(intent: Pick<PaymentIntent, "transferMethod" | "payload" | "amount">): object {
    return this.#methods.find(intent.transferMethod)?.settlementOf?.(intent) ?? {};
  }

  /** Reports whether a text can name a transaction of a payment's chain. */
  isTransaction(payment: Pick<PaymentIntent, "transferMethod">, text: string): boolean {
    return this.#methods.isTransaction(payment.transferMethod, text);
  }

  #evidenceOf(token: TokenName): TokenEvidence | undefined {
    return this.#watched.get(tokenKey(token))?.evidence;
  }

  #secondLook({ fingerprint }: PaymentIntent, evidence: Evidence & { kind: "not_paid" }): Evidence {
    const { reason } = evidence;
    const first = this.#sightings.get(fingerprint);
    if (first?.reason === reason && performance.now() - first.at >= this.secondLookAfterMs) return evidence;
    if (first?.reason !== reason) this.#sightings.set(fingerprint, { reason, at: performance.now() });
    return { kind: "open", reason: `${reason}: a second look has to confirm it`, isAlmostNotPaid: true };
  }
}

function tokenKey({ network, asset }: TokenName): string {
  return `${network}/${oneSpelling(asset)}`;
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0] ?? "";
}
