import { randomBytes } from "node:crypto";
import { parsePaymentPayload } from "@x402/core/schemas";
import type { Network, PaymentPayload, PaymentRequirements } from "@x402/core/types";
import { concat, keccak256, stringToBytes } from "viem";
import * as z from "zod";
import { isEvm } from "../../chain/chain-client.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { EIP3009 } from "../../core/payment.ts";
import { extraOf, type Offer, schemeOf } from "../../x402/wire/offer.ts";
import type { Versions } from "../../x402/wire/version.ts";
import { type Challenge, canonical } from "./challenges.ts";
import { type Credential, malformed, parseAs, readJson } from "./credential.ts";

/** A payment method of MPP. It moves the same tokens as x402, so its credentials are read as x402 payments. */
export interface MppMethod {
  readonly name: string;
  /** Problem types beyond the types of the specification. */
  readonly problemBase: string;
  /** Challenges hold the digest of the body. */
  readonly bindsBody: boolean;
  /** Reports whether the method can pay an offer. */
  takes(offer: Offer): boolean;
  /** Returns the challenge for an offer that the method can pay. */
  ask(
    offer: Offer,
    of: { readonly decimals: number | undefined; readonly requestHash: string | undefined },
  ): Pick<Challenge, "request" | "opaque">;
  /** Returns the payment, and the purchase that the challenge is for. @throws GatewayError `malformed_credential` */
  read(
    credential: Credential,
    versions: Versions,
  ): {
    readonly payment: PaymentPayload;
    /** The {@link jobText} of its job. */
    readonly job: string;
    /** Hash of the whole request, at a job's own route. */
    readonly requestHash: string | undefined;
  };
  /** Returns the name of a job in its challenges. */
  jobText(job: JobKey): string;
  /** Nonce that the authorization must have; undefined if the payer chooses the nonce. */
  nonceOf?(challenge: Challenge): string;
}

const chargeRequest = z.object({ amount: z.string(), currency: z.string(), recipient: z.string() });

const evmRequest = chargeRequest.extend({ methodDetails: z.object({ chainId: z.number() }) });
/** Opaque data of a challenge: the fields that are named here, and the fields of the offer's `extra`. */
const evmOpaque = z
  .object({
    job: z.string(),
    name: z.string(),
    version: z.string(),
    request: z.string().optional(),
    salt: z.string().optional(),
  })
  .catchall(z.string());
const evmPayload = z
  .object({ type: z.literal("authorization"), signature: z.string() })
  .and(z.record(z.string(), z.unknown()));

/** `evm`: the authorization is EIP-3009, and its nonce names the challenge. */
export const EVM: MppMethod = {
  name: "evm",
  problemBase: "about:blank",
  bindsBody: true,
  jobText: ({ serviceId, jobIndex }) => jobKeyText(serviceId, jobIndex),

  takes: (offer) =>
    isExact(offer) && offer.token.transferMethod === EIP3009.name && offer.token.eip3009 !== undefined,

  ask({ job, token, amount, extra }, { decimals, requestHash }) {
    const { network, asset, payTo, eip3009 } = token;
    const methodDetails = {
      chainId: Number(network.split(":")[1]),
      credentialTypes: ["authorization"],
      decimals,
    };
    return {
      request: canonical({ amount, currency: asset, recipient: payTo, methodDetails }),
      opaque: canonical({
        job: EVM.jobText(job),
        ...eip3009,
        ...extra,
        // A request with GET has no body for a digest to bind, so the challenge holds the hash of the request.
        request: requestHash,
        // The authorization's nonce is made of the challenge, so two challenges for one job must differ.
        salt: randomBytes(12).toString("base64url"),
      }),
    };
  },

  read({ challenge, payload }) {
    const { request, opaque = "" } = challenge;
    const { methodDetails, ...charge } = parseAs(evmRequest, readJson(request, "request"), "request");
    const {
      job,
      request: requestHash,
      salt: _,
      ...extra
    } = parseAs(evmOpaque, readJson(opaque, "opaque"), "opaque");
    const { type: _type, signature, ...authorization } = parseAs(evmPayload, payload, "payload");
    const accepted = requirements({
      ...charge,
      network: `eip155:${methodDetails.chainId}`,
      extra,
    });
    const payment = { x402Version: 2, accepted, payload: { signature, authorization } };
    return { job, requestHash, payment };
  },

  nonceOf: ({ id, realm }) => keccak256(concat([stringToBytes(id), stringToBytes(realm)])),
};

const blueprintRequest = chargeRequest.extend({
  description: z.string(),
  methodDetails: z.object({
    network: z.string(),
    transferMethod: z.string(),
    extra: z.object({ name: z.string(), version: z.string() }).optional(),
  }),
});
const blueprintPayload = z.object({ x402_payload: z.string() });

/** `blueprintevm`, the method of the Blueprint SDK: an x402 payment of version 1 in a credential. */
export const BLUEPRINT: MppMethod = {
  name: "blueprintevm",
  problemBase: "https://blueprint.tangle.tools/problems/",
  // Its clients return only the parameters that they know.
  bindsBody: false,
  // A text, so that no client loses digits of a large service id.
  jobText: ({ serviceId, jobIndex }) => `Tangle blueprint job service_id=${serviceId} job_index=${jobIndex}`,

  takes: (offer) => isExact(offer) && isEvm(offer.token.network),

  ask({ job, token, amount }, { decimals }) {
    const { network, asset, payTo, transferMethod, eip3009 } = token;
    const methodDetails = {
      network,
      scheme: "exact",
      transferMethod,
      extra: eip3009,
      decimals,
      service_id: job.serviceId,
      job_index: job.jobIndex,
    };
    const description = BLUEPRINT.jobText(job);
    return {
      request: canonical({ amount, currency: asset, recipient: payTo, description, methodDetails }),
    };
  },

  read({ challenge, payload }, versions) {
    const asked = parseAs(blueprintRequest, readJson(challenge.request, "request"), "request");
    const { network, transferMethod, extra: eip3009 } = asked.methodDetails;
    const { x402_payload } = parseAs(blueprintPayload, payload, "payload");
    const parsed = parsePaymentPayload(readJson(x402_payload, "x402_payload"));
    if (!parsed.success || parsed.data.x402Version !== 1)
      throw malformed("is wrong: x402_payload is not an x402 payment of version 1");
    const { scheme, network: named, payload: signed } = parsed.data;
    if (scheme !== "exact" || versions.networkOf(named) !== network)
      throw malformed("is wrong: x402_payload names another scheme or network than the challenge");
    const accepted = requirements({ ...asked, network, extra: extraOf({ eip3009, transferMethod }) });
    const payment = { x402Version: 2, accepted, payload: signed };
    return { job: asked.description, requestHash: undefined, payment };
  },
};

function requirements(asked: {
  readonly network: string;
  readonly amount: string;
  readonly currency: string;
  readonly recipient: string;
  readonly extra: Readonly<Record<string, string>>;
}): PaymentRequirements {
  const { network, amount, currency, recipient, extra } = asked;
  return {
    scheme: "exact",
    network: network as Network,
    amount,
    asset: currency,
    payTo: recipient,
    // A hint, which is never compared.
    maxTimeoutSeconds: 300,
    extra,
  };
}

/** Reports whether the offer is for one exact payment, the only kind of payment that the methods can make. */
function isExact(offer: Offer): boolean {
  return schemeOf(offer) === "exact";
}
