import { decodePaymentRequiredHeader } from "@x402/core/http";
import type { PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { concat, keccak256, stringToBytes } from "viem";
import { ERROR_KINDS, type ErrorCode } from "../../../src/core/errors.ts";
import type { HttpResponse } from "../../../src/http/response.ts";
import { mppTable } from "../../../src/parts/mpp/config.ts";
import { v1NetworkName } from "../../../src/parts/version-1/version-1.ts";
import { type MppChallenge, readChallenges } from "../../helpers/mpp.ts";
import type { Surroundings } from "./part.ts";
import type { ClientRequest } from "./replica.ts";
import type { Signed } from "./sign-payment.ts";
import { BrokenLaw } from "./simulation.ts";

/** Demand that a client can pay. */
export interface Demand {
  readonly accepted: PaymentRequirements;
  readonly resource?: unknown;
  /** The challenge of MPP that a payment answers. */
  readonly challenge?: MppChallenge;
  /** Nonce that the payment must have; absent: any. */
  readonly nonce?: `0x${string}`;
}

/** Purchase that a client makes. */
export interface Purchase {
  readonly path: string;
  readonly query?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A signed payment, and what it pays. */
export interface Payment extends Signed {
  readonly demand: Demand;
  /** Payer as a credential of MPP names it. */
  readonly source?: string;
}

/** An answer as one of the paid route would be. */
export interface Told {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A protocol over which clients buy. */
export interface Protocol {
  readonly name: string;
  request(purchase: Purchase, payment?: Payment): ClientRequest;
  /** Returns what an answer asks for; nothing if it does not ask for a payment. */
  demandsOf(answer: HttpResponse): readonly Demand[];
  read(answer: HttpResponse): Told;
}

/** x402 over HTTP. */
export const X402: Protocol = {
  name: "x402",
  request: (purchase, payment) => post(purchase, payment && { "payment-signature": base64(payment.payload) }),
  demandsOf({ headers }) {
    const required = headers?.["payment-required"];
    return typeof required === "string" ? demandsOf(decodePaymentRequiredHeader(required)) : [];
  },
  read: readHttp,
};

/** x402 of version 1 over HTTP, whose payments do not say which offer they answer. */
export const X402_V1: Protocol = {
  ...X402,
  name: "x402 of version 1",
  request: (purchase, payment) => post(purchase, payment && { "x-payment": base64(v1Of(payment)) }),
};

/** MPP over HTTP, by the method `evm`. */
export const MPP: Protocol = {
  name: "MPP",
  request: (purchase, payment) => post(purchase, payment && credentialHeader(credentialOf(payment))),
  demandsOf: (answer) => challengesOf(answer).map(demandOf),
  read: readHttp,
};

/** MPP over HTTP, by the method of the Blueprint SDK. */
const BLUEPRINT: Protocol = {
  name: "MPP of the Blueprint SDK",
  request: ({ path, ...purchase }, payment) =>
    post(
      { ...purchase, path: path.replace("x402", "mpp") },
      payment && credentialHeader(blueprintOf(payment)),
    ),
  demandsOf: (answer) =>
    challengesOf(answer).map((challenge) => {
      const { network, transferMethod, extra } = requestOf(challenge).methodDetails;
      const method = transferMethod === "permit2" ? { assetTransferMethod: transferMethod } : {};
      return { accepted: requirements(challenge, network, { ...extra, ...method }), challenge };
    }),
  read: readHttp,
};

/** MCP, paid by x402. */
const MCP: Protocol = {
  name: "MCP",
  request: (purchase, payment) => callTool(purchase, payment && { "x402/payment": payment.payload }),
  demandsOf(answer) {
    const { structuredContent } = toolResult(answer);
    return structuredContent?.accepts === undefined
      ? []
      : demandsOf(structuredContent as unknown as PaymentRequired);
  },
  read: readToolResult,
};

/** MCP, paid by MPP. */
const MCP_BY_MPP: Protocol = {
  name: "MCP and MPP",
  request: (purchase, payment) =>
    callTool(purchase, payment && { "org.paymentauth/credential": credentialOf(payment) }),
  demandsOf(answer) {
    const { challenges = [] } = (toolResult(answer)._meta?.["org.paymentauth/payment-required"] ?? {}) as {
      readonly challenges?: readonly (MppChallenge & { readonly request: unknown })[];
    };
    return challenges.map((challenge) => {
      const request = Buffer.from(JSON.stringify(challenge.request)).toString("base64url");
      return { ...demandOf({ ...challenge, request } as MppChallenge), challenge };
    });
  },
  read: readToolResult,
};

/** Decides over which protocol a client buys. */
export function protocolOf(
  { simulation, shop }: Surroundings,
  { name, paysOverMpp }: { readonly name: string; readonly paysOverMpp: boolean },
): Protocol {
  if (mppTable.in(shop.x402) === undefined) return X402;
  const protocols = paysOverMpp ? [X402, MPP, BLUEPRINT, MCP, MCP_BY_MPP] : [X402, MCP];
  return simulation.pick(`${name} buys over`, protocols);
}

function demandsOf({ accepts, resource }: PaymentRequired): readonly Demand[] {
  return accepts.map((accepted) => ({ accepted, resource }));
}

function challengesOf({ headers }: HttpResponse): readonly MppChallenge[] {
  return [headers?.["www-authenticate"] ?? []].flat().flatMap((value) => readChallenges(String(value)));
}

function requestOf({ request }: MppChallenge) {
  return JSON.parse(Buffer.from(request, "base64url").toString());
}

/** Reads a challenge of the method `evm`. */
export function demandOf(challenge: MppChallenge): Demand {
  const { id, realm, opaque = "" } = challenge;
  const { name, version } = JSON.parse(Buffer.from(opaque, "base64url").toString());
  const network = `eip155:${requestOf(challenge).methodDetails.chainId}`;
  return {
    accepted: requirements(challenge, network, { name, version }),
    challenge,
    nonce: keccak256(concat([stringToBytes(id), stringToBytes(realm)])),
  };
}

function requirements(
  challenge: MppChallenge,
  network: string,
  extra: Record<string, unknown>,
): PaymentRequirements {
  const { amount, currency, recipient } = requestOf(challenge);
  return {
    ...{ scheme: "exact", network: network as PaymentRequirements["network"], amount },
    ...{ asset: currency, payTo: recipient, maxTimeoutSeconds: 300, extra },
  };
}

/** The credential of the method `evm`. */
function credentialOf({ payload, demand, source }: Payment): object {
  const { signature, authorization } = payload.payload as { signature: string; authorization: object };
  return {
    challenge: demand.challenge,
    source,
    payload: { type: "authorization", signature, ...authorization },
  };
}

function blueprintOf({ payload, demand }: Payment): object {
  const v1 = { x402Version: 1, scheme: "exact", network: demand.accepted.network, payload: payload.payload };
  return { challenge: demand.challenge, payload: { x402_payload: base64(v1) } };
}

function v1Of({ payload, demand }: Payment): object {
  const network = v1NetworkName(demand.accepted.network);
  return { x402Version: 1, scheme: "exact", network, payload: payload.payload };
}

function credentialHeader(credential: object): Readonly<Record<string, string>> {
  return { authorization: `Payment ${Buffer.from(JSON.stringify(credential)).toString("base64url")}` };
}

function post({ headers, ...rest }: Purchase, paid: Readonly<Record<string, string>> = {}): ClientRequest {
  return { method: "POST", ...rest, headers: { ...headers, ...paid } };
}

function callTool({ path, headers, body }: Purchase, paid: object = {}): ClientRequest {
  const [service, job] = path.split("/").slice(-2);
  const params = {
    ...{ name: `job-${service}-${job}`, arguments: { body } },
    _meta: { "jobgate/headers": headers, ...paid },
  };
  const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
  return { method: "POST", path: "/mcp", headers: {}, body: JSON.stringify(message) };
}

function readHttp({ status, body }: HttpResponse): Told {
  return { status, body: JSON.parse(String(body)) };
}

interface ToolResult {
  readonly structuredContent?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

function toolResult({ body }: HttpResponse): ToolResult {
  return JSON.parse(String(body)).result ?? {};
}

function readToolResult(answer: HttpResponse): Told {
  const { error } = JSON.parse(String(answer.body)) as { readonly error?: { readonly data?: Told["body"] } };
  const { structuredContent, _meta } = toolResult(answer);
  const call = _meta?.["jobgate/call"] as Told["body"] | undefined;
  if (call !== undefined) return { status: 202, body: call };
  const body = error?.data ?? structuredContent ?? {};
  const kind = ERROR_KINDS[body.code as ErrorCode];
  if (kind === undefined || body.code === "internal_error")
    throw new BrokenLaw(`MCP answers ${String(answer.body)}`);
  return { status: kind.status, body };
}

function base64(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}
