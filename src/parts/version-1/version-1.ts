import { PaymentRequirementsV1Schema } from "@x402/core/schemas";
import type {
  Network,
  PaymentPayload,
  PaymentPayloadV1,
  PaymentRequirements,
  PaymentRequirementsV1,
} from "@x402/core/types";
import { EVM_NETWORK_CHAIN_ID_MAP } from "@x402/evm/v1";
import { EIP3009 } from "../../core/payment.ts";
import { type JobDescription, type Offer, schemeOf, toRequirements } from "../../x402/wire/offer.ts";
import type { Required, WireVersion } from "../../x402/wire/version.ts";

/**
 * Version 1 of x402. Its payments name no offer, only a scheme and a network. Version 1 has its own names for networks.
 * It supports only EIP-3009.
 */
export const VERSION_1 = {
  number: 1,
  headers: { payment: "x-payment", settlement: "x-payment-response" },
  hasExtensions: false,
  nameOf: v1NetworkName,
  networkOf: caip2Network,

  read(payload) {
    const { scheme, network } = payload as PaymentPayloadV1;
    return { scheme, network };
  },

  names({ scheme, network }, offer) {
    if (scheme !== "exact" || schemeOf(offer) !== "exact") return false;
    return network === v1NetworkName(offer.token.network) && offer.token.transferMethod === EIP3009.name;
  },

  requirementsOf,
  isRequirements: (value: unknown) => PaymentRequirementsV1Schema.safeParse(value).success,
  toCurrent,
} as const satisfies WireVersion;

function requirementsOf(
  offer: Offer,
  { resource, extensions }: Pick<JobDescription, "resource" | "extensions">,
): PaymentRequirementsV1 | undefined {
  const network = v1NetworkName(offer.token.network);
  if (network === undefined || offer.token.transferMethod !== EIP3009.name) return undefined;
  const { amount, ...common } = toRequirements(offer);
  return {
    ...common,
    // The SDK's type allows only CAIP-2, but v1 puts the name here.
    network: network as Network,
    maxAmountRequired: amount,
    // v1 clients refuse anything but an absolute URL.
    resource: resource.url,
    description: resource.description ?? "",
    mimeType: resource.mimeType ?? "",
    outputSchema: outputSchemaOf(extensions),
  };
}

/** The current version has the same values in other fields. */
function toCurrent(asked: Required): ReturnType<WireVersion["toCurrent"]> {
  const payload = asked.payload as PaymentPayloadV1;
  const requirements = asked.requirements as PaymentRequirementsV1;
  const { scheme, asset, maxAmountRequired: amount, payTo, maxTimeoutSeconds, extra } = requirements;
  const network = caip2Network(requirements.network);
  const paidOn = caip2Network(payload.network);
  if (network === undefined || paidOn === undefined) return undefined;
  const required = { scheme, network, asset, amount, payTo, maxTimeoutSeconds, extra } as PaymentRequirements;
  return {
    payload: {
      x402Version: 2,
      accepted: { ...required, scheme: payload.scheme, network: paidOn },
      payload: payload.payload,
    } as PaymentPayload,
    requirements: required,
  };
}

/** The extension `bazaar` of version 2, as far as version 1 has fields for it. */
interface Discovery {
  readonly info: { readonly input: object; readonly output?: object };
  readonly schema: {
    readonly properties: {
      readonly input: {
        readonly properties: { readonly queryParams?: { readonly properties?: object } | undefined };
      };
    };
  };
}

/** Returns the extension `bazaar` in the form that facilitators of version 1 read: as the `outputSchema` of an offer. */
function outputSchemaOf(extensions: JobDescription["extensions"]): Record<string, unknown> {
  const { bazaar } = extensions as { readonly bazaar?: Discovery };
  if (bazaar === undefined) return {};
  const { input, output } = bazaar.info;
  const { queryParams } = bazaar.schema.properties.input.properties;
  const fields = queryParams?.properties && { queryParams: queryParams.properties };
  return { input: { discoverable: true, ...input, ...fields }, ...(output && { output }) };
}

/**
 * Networks that the v1 client library knows. Its list is closed, and one entry outside it makes the client
 * refuse the whole 402, so names that only later libraries know are left out.
 */
const V1_CLIENT_NETWORKS = [
  "abstract",
  "abstract-testnet",
  "base-sepolia",
  "base",
  "avalanche-fuji",
  "avalanche",
  "iotex",
  "sei",
  "sei-testnet",
  "polygon",
  "polygon-amoy",
  "peaq",
  "story",
  "educhain",
  "skale-base-sepolia",
] as const satisfies readonly (keyof typeof EVM_NETWORK_CHAIN_ID_MAP)[];

const NAME_BY_CAIP2: ReadonlyMap<string, string> = new Map(
  V1_CLIENT_NETWORKS.map((name) => [`eip155:${EVM_NETWORK_CHAIN_ID_MAP[name]}`, name]),
);

/** The v1 name of a CAIP-2 network; undefined when v1 clients have none. */
export function v1NetworkName(network: string): string | undefined {
  return NAME_BY_CAIP2.get(network);
}

/** The CAIP-2 network of a v1 name; undefined for a name that v1 clients do not know. */
export function caip2Network(name: string): string | undefined {
  const id = V1_CLIENT_NETWORKS.find((known) => known === name);
  return id && `eip155:${EVM_NETWORK_CHAIN_ID_MAP[id]}`;
}
