import type { JobCall, JobCallEncoder } from "../../src/core/job-call.ts";
import type { OneTimeNonce, PaymentIntent } from "../../src/core/payment.ts";
import { NOT_KEPT, type StoredResult } from "../../src/store/contract/call-lookup.ts";
import type { ClaimedCall, ClaimRequest } from "../../src/store/contract/work-queue.ts";
import type { Store } from "../../src/store/store.ts";

/** Unix milliseconds at which the tests' moved clock starts. */
export const START_MS = 1_800_000_000_000;

/** Encodes a JobCall as its metadata's `head`, if it has one, and its body. */
export const encodeTestCall: JobCallEncoder = ({ metadata, body }) =>
  Buffer.concat([Buffer.from(metadata.head ?? ""), body]);

export function webhookCall(overrides: Partial<JobCall> = {}): JobCall {
  return {
    origin: "webhook",
    jobId: 30n,
    serviceId: 1n,
    body: Buffer.from("body"),
    metadata: { "X-WEBHOOK-ORIGIN": "webhook" },
    ...overrides,
  };
}

export function paidCall(overrides: Partial<JobCall> = {}): JobCall {
  return webhookCall({ origin: "x402", jobId: 7n, metadata: { "X-X402-ORIGIN": "x402" }, ...overrides });
}

/** An intent that differs from those of other numbers in its key, fingerprint and receipt. */
export function paymentIntent(number: number, overrides: Partial<PaymentIntent> = {}): PaymentIntent {
  const hex = number.toString(16).padStart(64, "0");
  return {
    key: {
      network: "eip155:84532",
      asset: "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
      payer: "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
      nonce: `0x${hex}`,
    },
    serviceId: 2n ** 64n - 1n,
    jobIndex: 7,
    fingerprint: `fingerprint-${number}`,
    bodyHash: "1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8",
    x402Version: 2,
    payload: '{"payload":{}}',
    requirements: '{"scheme":"exact"}',
    transferMethod: "eip3009",
    facilitator: "facilitator.example.com/x402",
    payTo: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    amount: "3264000",
    charge: "before",
    symbol: "USDC",
    price: "1000000000000000",
    rate: "3264",
    decimals: 6,
    validBefore: START_MS / 1000 + 300,
    receipt: hex,
    fromBlock: "12345678901234567890",
    ...overrides,
  };
}

export function oneTimeNonce(key: string, expiresAt: number = START_MS / 1000 + 60): OneTimeNonce {
  return { key, expiresAt };
}

export const NETWORK = "eip155:84532";
export const ACCOUNT = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

/** A transaction that differs from those of other numbers in its reference and call data. */
export function newTransaction(
  number: number,
  overrides: { readonly network?: string; readonly reference?: string } = {},
) {
  return {
    network: NETWORK,
    reference: `0xreference${number}`,
    to: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    data: `0xe3ee160e${number.toString(16).padStart(64, "0")}`,
    validBefore: START_MS / 1000 + 300,
    ...overrides,
  };
}

export function signedTransaction(
  number: number,
  nonce: number,
  overrides: {
    readonly reference?: string;
    readonly account?: string;
    readonly raw?: string;
    readonly hash?: string;
    readonly replaces?: string;
  } = {},
) {
  const { reference } = newTransaction(number);
  return { reference, account: ACCOUNT, nonce, raw: `0x02${nonce}`, hash: `0xhash${nonce}`, ...overrides };
}

export const LEASE_MS = 60_000;
export const NO_BACKOFF = { baseMs: 0, maxMs: 0 };

export function claimRequest(overrides: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    limit: 10,
    jobIds: [],
    leaseMs: LEASE_MS,
    maxAttempts: 3,
    subscriber: "test",
    suspects: 10,
    ...overrides,
  };
}

export async function acceptId(store: Store, overrides: Partial<JobCall> = {}): Promise<number> {
  const outcome = await store.accept(webhookCall(overrides));
  if (outcome.kind !== "accepted") throw new Error(`expected accepted, got ${outcome.kind}`);
  return outcome.callId;
}

/** Begins and settles payment `number`: its call id, now ready. */
export async function paidId(store: Store, number: number): Promise<number> {
  const begun = await store.beginPayment(paymentIntent(number), paidCall());
  if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
  await store.settlePayment(paymentIntent(number).key, "{}");
  return begun.callId;
}

export async function claimCalls(
  store: Store,
  overrides: Partial<ClaimRequest> = {},
): Promise<ClaimedCall[]> {
  return (await store.claim(claimRequest(overrides))).calls;
}

/** Claims the one call that is due. */
export async function claimOne(store: Store, overrides: Partial<ClaimRequest> = {}): Promise<ClaimedCall> {
  const [claimed, ...others] = await claimCalls(store, overrides);
  if (claimed === undefined || others.length > 0) throw new Error("expected exactly one due call");
  return claimed;
}

/** @throws Error for a result that was forgotten */
export function keptResult(found: StoredResult | typeof NOT_KEPT | undefined): StoredResult | undefined {
  if (found === NOT_KEPT) throw new Error("the result was forgotten");
  return found;
}
