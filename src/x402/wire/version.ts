import { isDeepStrictEqual } from "node:util";
import { PaymentRequirementsV2Schema } from "@x402/core/schemas";
import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import type { GatewayError } from "../../core/errors.ts";
import { oneSpelling } from "../../core/payment.ts";
import { type JobDescription, type Offer, toRequirements } from "./offer.ts";

/** Payload of a payment, in any version. */
export interface Payload {
  readonly x402Version: number;
  /** Fields that the payer signed, in the shape of their transfer method. */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly extensions?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Requirements that a payment has to meet, in any version. */
export interface Requirements {
  readonly scheme: string;
  /** Name of the network, as the version spells it. */
  readonly network: string;
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** A payment and the requirements that it has to meet, both of one version. */
export interface Required {
  readonly payload: Payload;
  readonly requirements: Requirements;
}

/** The unsigned part of a payment: the offer that its client means to pay. */
export interface NamedOffer {
  readonly scheme: string;
  /** Name of the network, as the version spells it. */
  readonly network: string;
  /** The whole offer; undefined if the version has no field for it. */
  readonly accepted?: PaymentRequirements;
}

/**
 * A version of x402: how clients and facilitators spell payments, offers and settlements. The core has version 2, the
 * current one; a part adds another version by `Part.version`. All further steps are the same for all versions.
 */
export interface WireVersion {
  /** `x402Version` of its messages. */
  readonly number: number;
  /** Names of the headers with a payment and with its settlement, in lower case. */
  readonly headers: { readonly payment: string; readonly settlement: string };
  /** Reports whether its payments have a field for extensions. */
  readonly hasExtensions: boolean;

  /** Returns the version's name of a CAIP-2 network; undefined if the version has no name for it. */
  nameOf(network: string): string | undefined;
  /** Returns the CAIP-2 network of a name in the version; undefined if the version has no such name. */
  networkOf(name: string): string | undefined;

  /** Reads the unsigned part of a payload of this version. */
  read(payload: Payload): NamedOffer;
  /** Reports whether the unsigned part of a payment names an offer. */
  names(named: NamedOffer, offer: Offer): boolean;
  /**
   * Returns an offer as a client finds it in a 402 and as a facilitator gets it; undefined if the version cannot express the
   * offer.
   */
  requirementsOf(offer: Offer, job: JobDescription): Requirements | undefined;

  /** Returns true if a value from another seller has the shape of requirements. */
  isRequirements(value: unknown): boolean;
  /** Translates a facilitator's request into the current version; undefined for a network that has no name. */
  toCurrent(
    asked: Required,
  ): { readonly payload: PaymentPayload; readonly requirements: PaymentRequirements } | undefined;
}

/** The current version: payments name the whole offer. */
export const VERSION_2: WireVersion = {
  number: 2,
  headers: { payment: "payment-signature", settlement: "payment-response" },
  hasExtensions: true,
  nameOf: (network) => network,
  networkOf: (name) => name,

  read(payload) {
    const { accepted } = payload as PaymentPayload;
    return { scheme: accepted.scheme, network: accepted.network, accepted };
  },

  names: ({ accepted }, offer) => accepted !== undefined && areAlike(accepted, toRequirements(offer)),

  requirementsOf: toRequirements,
  isRequirements: (value) => PaymentRequirementsV2Schema.safeParse(value).success,
  toCurrent: ({ payload, requirements }) => ({
    payload: payload as PaymentPayload,
    requirements: requirements as PaymentRequirements,
  }),
};

/** Compares requirements, ignoring the letter case of addresses, and the timeout, which is only a hint. */
function areAlike(one: PaymentRequirements, other: PaymentRequirements): boolean {
  return (
    one.scheme === other.scheme &&
    one.network === other.network &&
    one.amount === other.amount &&
    areOneAddress(one.asset, other.asset) &&
    areOneAddress(one.payTo, other.payTo) &&
    isDeepStrictEqual({ ...one.extra }, { ...other.extra })
  );
}

function areOneAddress(one: string, other: string): boolean {
  return one === other || oneSpelling(one) === oneSpelling(other);
}

/** The versions of x402 in which a build accepts payments: the current version first, then the versions that its parts add. */
export class Versions implements Iterable<WireVersion> {
  readonly current = VERSION_2;
  readonly added: readonly WireVersion[];

  constructor(added: readonly WireVersion[] = []) {
    this.added = added;
  }

  [Symbol.iterator](): Iterator<WireVersion> {
    return [this.current, ...this.added].values();
  }

  /** Returns the version with a number; undefined if this build does not have it. */
  find(number: unknown): WireVersion | undefined {
    return [...this].find((version) => version.number === number);
  }

  /**
   * Returns the CAIP-2 network of a name in any version, because facilitators may answer in another version than the
   * request's.
   */
  networkOf(name: string): string {
    // No version's own names contain a colon, as CAIP-2 names do.
    if (name.includes(":")) return name;
    for (const version of this.added) {
      const network = version.networkOf(name);
      if (network !== undefined) return network;
    }
    return name;
  }
}

/**
 * Names that payers give their purchases in payloads, over any protocol. All payments of a payer under one name are one
 * purchase. A part reads such names (`Part.purchaseNames`), and a protocol can have its own names.
 */
export interface PurchaseNames {
  /** Reads the name in a payload. @returns undefined if there is no name @throws GatewayError `invalid_payment` */
  read(payload: Payload): string | undefined;
  /**
   * Returns the refusal of another purchase under a name that the payer has used.
   * @param what the fields in which that purchase may differ, such as "job, request or body"
   */
  taken(what: string): GatewayError;
}
