import { type ChargeKind, isPartial } from "../../core/payment.ts";
import type { OwnSettlement } from "../facilitators/own-settlement.ts";
import type { Authorization, AuthorizedPayment } from "../settlement/authorization.ts";
import { EvmEvidence } from "../settlement/evm-evidence.ts";
import type { TokenEvidence, TokenWatch } from "../settlement/token-evidence.ts";
import type { CeilingScheme } from "../wire/offer.ts";
import { type PurchaseNames, Versions } from "../wire/version.ts";

import { EIP3009_METHOD } from "./eip3009.ts";
import type { Method } from "./method.ts";

const EVM_TRANSACTION = /^0x[0-9a-fA-F]{64}$/;

/**
 * The transfer methods of a build: EIP-3009, and the methods that parts add. Also holds the versions of x402 in which
 * their payments come, the names of purchases in these payments, and the scheme in addition to `exact`.
 */
export class Methods implements Iterable<Method> {
  readonly #byName: ReadonlyMap<string, Method>;

  readonly versions: Versions;
  /** Undefined if payloads have no names of purchases. */
  readonly purchaseNames: PurchaseNames | undefined;
  /** Undefined if the runner names the charge of no payment. */
  readonly ceilingScheme: CeilingScheme | undefined;

  constructor(
    added: readonly Method[] = [],
    versions = new Versions(),
    purchaseNames?: PurchaseNames,
    ceilingScheme?: CeilingScheme,
  ) {
    this.versions = versions;
    this.purchaseNames = purchaseNames;
    this.ceilingScheme = ceilingScheme;
    this.#byName = new Map([EIP3009_METHOD, ...added].map((method) => [method.name, method]));
  }

  [Symbol.iterator](): Iterator<Method> {
    return this.#byName.values();
  }

  /** Returns the method that a token, an offer or a stored payment names; undefined if this build does not have it. */
  find(name: string): Method | undefined {
    return this.#byName.get(name);
  }

  /** @throws Error when this build does not have the method */
  get(name: string): Method {
    const method = this.find(name);
    if (method === undefined) throw new Error(`this build has no transfer method ${JSON.stringify(name)}`);
    return method;
  }

  /** Returns the method of an x402 payload: EIP-3009 unless the payload belongs to another method. */
  ofPayload(payload: object): Method {
    return [...this].find((method) => method.owns(payload)) ?? EIP3009_METHOD;
  }

  /** Shows the payments in a token on its chain. */
  watch(watch: TokenWatch): TokenEvidence {
    const own = this.find(watch.token.transferMethod)?.watch?.(watch);
    return own ?? new EvmEvidence(watch, (payment) => this.#authorizationOf(payment));
  }

  /** Returns true if a text has the form of a transaction's name on the chains of a method. */
  isTransaction(name: string, text: string): boolean {
    return (this.find(name)?.transaction ?? EVM_TRANSACTION).test(text);
  }

  /** @throws Error when this build does not have the payment's method */
  #authorizationOf(payment: AuthorizedPayment): Authorization {
    const authorization = this.get(payment.transferMethod).authorizationOf?.(payment, this);
    if (authorization === undefined) throw new Error(`${payment.transferMethod} does not pay on EVM chains`);
    return authorization;
  }

  /** Returns the settlement on a network that is not an EVM chain; undefined if this build cannot settle there. */
  ownSettlement(network: string): OwnSettlement | undefined {
    return [...this].find(({ ownSettlement }) => ownSettlement?.has(network))?.ownSettlement;
  }

  /** Returns the only account that a contract lets send a transaction; undefined if any account can. Lower case. */
  senderOf(transaction: { readonly to: string; readonly data: string }): `0x${string}` | undefined {
    for (const method of this) {
      const sender = method.senderOf?.(transaction);
      if (sender !== undefined) return sender;
    }
    return undefined;
  }

  /** Returns true if the offers of a method depend on what facilitators support. */
  dependsOnFacilitators(name: string): boolean {
    const { fresh, extensions = {} } = this.find(name) ?? {};
    return this.chargesPart(name) || fresh !== undefined || Object.keys(extensions).length > 0;
  }

  /** Returns true if payments by a method can be charged less than the signed amount. */
  chargesPart(name: string): boolean {
    return this.ceilingScheme !== undefined && this.find(name)?.chargesPart === true;
  }

  /** Returns the x402 scheme of offers with a charge; undefined if this build has no scheme for it. */
  schemeOf(charge: ChargeKind): string | undefined {
    return isPartial(charge) ? this.ceilingScheme?.name : "exact";
  }
}
