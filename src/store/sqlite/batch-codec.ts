import type { JobCallOrigin } from "../../core/job-call.ts";
import type { PaymentIntent } from "../../core/payment.ts";
import type { AcceptOnceOutcome, Delivery } from "../contract/intake.ts";
import type {
  Charge,
  Claimed,
  DecidedCharge,
  JobResult,
  Lease,
  LeaseOutcome,
} from "../contract/work-queue.ts";
import type { OperationOutcome } from "../group-commit.ts";
import type { NewCall } from "../new-call.ts";
import { type Input, OPERATION_NAMES, type OperationName, type Outcome } from "../operations.ts";
import { type FlatMessage, FlatReader, FlatWriter } from "./flat-message.ts";
import type { TimedOperation } from "./transaction.ts";

/* A batch and its outcomes as flat messages between the main thread and a database worker. The operations of every job
   (accept, claim, ack) and all byte arrays have a flat form. The rest is cloned as it is. */

/** Encoder and decoder of one kind of value. */
interface Form<Value> {
  write(to: FlatWriter, value: Value): void;
  read(from: FlatReader): Value;
}

const CLONED: Form<unknown> = { write: (to, value) => to.other(value), read: (from) => from.other() };

const LEASE_OUTCOMES: readonly LeaseOutcome[] = ["done", "lease_lost", "not_found"];
const ACCEPT_KINDS = ["accepted", "queue_full", "duplicate", "conflict", "key_paused"] as const;

const ACCEPT_OUTCOME: Form<AcceptOnceOutcome> = {
  write(to, outcome) {
    to.number(ACCEPT_KINDS.indexOf(outcome.kind));
    if ("callId" in outcome) to.number(outcome.callId);
  },
  read(from) {
    const kind = ACCEPT_KINDS[from.number()] ?? "conflict";
    return kind === "accepted" || kind === "duplicate" ? { kind, callId: from.number() } : { kind };
  },
};

const INPUT_FORMS: { readonly [Name in OperationName]?: Form<Input<Name>> } = {
  accept: {
    write: (to, [call]) => writeNewCall(to, call),
    read: (from) => [readNewCall(from)],
  },
  acceptOnce: {
    write(to, [call, delivery]) {
      writeNewCall(to, call);
      writeDelivery(to, delivery);
    },
    read: (from) => [readNewCall(from), readDelivery(from)],
  },
  beginPayment: {
    write(to, [intent, call, limits]) {
      writeNewCall(to, call);
      writeIntent(to, intent);
      to.other(limits);
    },
    read(from) {
      const call = readNewCall(from);
      const intent = readIntent(from);
      return [intent, call, from.other() as Input<"beginPayment">[2]];
    },
  },
  ack: {
    write(to, [lease, result, charge]) {
      writeLease(to, lease);
      writeResult(to, result);
      to.boolean(charge !== undefined);
      if (charge !== undefined) to.other(charge);
    },
    read(from) {
      const ack = [readLease(from), readResult(from)] as const;
      return from.boolean() ? [...ack, from.other() as Charge] : [...ack];
    },
  },
  appendResult: {
    write(to, [lease, place, bytes]) {
      writeLease(to, lease);
      to.number(place);
      to.bytes(bytes);
    },
    read: (from) => [readLease(from), from.number(), from.bytes()],
  },
};

const RESULT_FORMS: { readonly [Name in OperationName]?: Form<Outcome<Name>> } = {
  accept: ACCEPT_OUTCOME as Form<Outcome<"accept">>,
  acceptOnce: ACCEPT_OUTCOME,
  ack: {
    write(to, { outcome, charge }) {
      to.number(LEASE_OUTCOMES.indexOf(outcome));
      to.boolean(charge !== undefined);
      if (charge !== undefined) to.other(charge);
    },
    read(from) {
      const outcome = LEASE_OUTCOMES[from.number()] ?? "not_found";
      return from.boolean() ? { outcome, charge: from.other() as DecidedCharge } : { outcome };
    },
  },
  beginPayment: {
    write(to, outcome) {
      const hasBegun = outcome.kind === "begun";
      to.boolean(hasBegun);
      if (hasBegun) to.number(outcome.callId);
      else to.other(outcome);
    },
    read: (from) =>
      from.boolean() ? { kind: "begun", callId: from.number() } : (from.other() as Outcome<"beginPayment">),
  },
  claim: { write: writeClaimed, read: readClaimed },
};

/** Operations by their code in a message. */
const KINDS = OPERATION_NAMES.map((name, code) => ({
  name,
  code,
  input: (INPUT_FORMS[name] ?? CLONED) as Form<unknown>,
  result: (RESULT_FORMS[name] ?? CLONED) as Form<unknown>,
}));
const KIND_BY_NAME = new Map(KINDS.map((kind) => [kind.name, kind]));

export function encodeBatch(batch: readonly TimedOperation[]): FlatMessage {
  const to = new FlatWriter();
  to.number(batch.length);
  for (const { name, now, clockStepMs = 0, input } of batch) {
    const { code, input: form } = kindOf(name);
    to.number(code);
    to.number(now);
    to.number(clockStepMs);
    form.write(to, input);
  }
  return to.message();
}

export function decodeBatch(message: FlatMessage): TimedOperation[] {
  const from = new FlatReader(message);
  const batch: TimedOperation[] = [];
  for (let left = from.number(); left > 0; left -= 1) {
    const kind = KINDS[from.number()];
    if (kind === undefined) throw new Error("a message between threads has an unknown operation");
    const now = from.number();
    const clockStepMs = from.number();
    batch.push({ name: kind.name, now, clockStepMs, input: kind.input.read(from) } as TimedOperation);
  }
  return batch;
}

/** @param batch the operations of these outcomes, in the same order */
export function encodeOutcomes(
  batch: readonly TimedOperation[],
  outcomes: readonly OperationOutcome[],
): FlatMessage {
  const to = new FlatWriter();
  for (const [index, { name }] of batch.entries()) {
    const outcome = outcomes[index] ?? { error: "the operation did not run" };
    to.boolean("result" in outcome);
    if ("result" in outcome) kindOf(name).result.write(to, outcome.result);
    else to.other(outcome.error);
  }
  return to.message();
}

/** @param batch the operations of these outcomes, in the same order */
export function decodeOutcomes(batch: readonly TimedOperation[], message: FlatMessage): OperationOutcome[] {
  const from = new FlatReader(message);
  return batch.map(({ name }) =>
    from.boolean() ? { result: kindOf(name).result.read(from) } : { error: from.other() as string },
  );
}

function kindOf(name: OperationName): (typeof KINDS)[number] {
  const kind = KIND_BY_NAME.get(name);
  if (kind === undefined) throw new Error(`${name} is no operation`);
  return kind;
}

function writeNewCall(
  to: FlatWriter,
  { origin, jobId, serviceId, encoded, headBytes, order }: NewCall,
): void {
  to.text(origin);
  to.text(jobId);
  to.text(serviceId);
  to.bytes(encoded);
  to.number(headBytes);
  to.boolean(order !== undefined);
  if (order === undefined) return;
  to.text(order.orderKey);
  to.boolean(order.holdsOnDead);
}

function readNewCall(from: FlatReader): NewCall {
  return {
    origin: from.text() as JobCallOrigin,
    jobId: from.text(),
    serviceId: from.text(),
    encoded: from.bytes(),
    headBytes: from.number(),
    order: from.boolean() ? { orderKey: from.text(), holdsOnDead: from.boolean() } : undefined,
  };
}

/** Forms of the fields of an intent. */
const INTENT_FIELDS = {
  ...({ fingerprint: "text", bodyHash: "text", payload: "text" } as const),
  ...({ transferMethod: "text", payTo: "text", amount: "text", symbol: "text", price: "text" } as const),
  ...({ rate: "text", receipt: "text", charge: "text" } as const),
  ...({
    requirements: "optional",
    purchaseName: "optional",
    boundHeaders: "optional",
    facilitator: "optional",
  } as const),
  ...({
    fromBlock: "optional",
    onFailure: "optional",
    minCharge: "optional",
    settlement: "optional",
  } as const),
  ...({ jobIndex: "number", x402Version: "number", decimals: "number", validBefore: "number" } as const),
  ...({ key: "key", serviceId: "bigint", oneTimeNonces: "other", notes: "other" } as const),
  chargesBack: "other",
} as const satisfies { readonly [Field in keyof PaymentIntent]-?: string };
const INTENT_ENTRIES = Object.entries(INTENT_FIELDS) as readonly [
  keyof PaymentIntent,
  "text" | "optional" | "number" | "bigint" | "key" | "other",
][];

function writeIntent(to: FlatWriter, intent: PaymentIntent): void {
  for (const [field, form] of INTENT_ENTRIES) {
    const value = intent[field];
    if (form === "text") to.text(value as string);
    else if (form === "number") to.number(value as number);
    else if (form === "bigint") to.text(String(value));
    else if (form === "key") for (const part of KEY_PARTS) to.text(intent.key[part]);
    else {
      to.boolean(value !== undefined);
      if (value === undefined) continue;
      if (form === "optional") to.text(value as string);
      else to.other(value);
    }
  }
}

function readIntent(from: FlatReader): PaymentIntent {
  const intent: Partial<Record<keyof PaymentIntent, unknown>> = {};
  for (const [field, form] of INTENT_ENTRIES) {
    if (form === "text") intent[field] = from.text();
    else if (form === "number") intent[field] = from.number();
    else if (form === "bigint") intent[field] = BigInt(from.text());
    else if (form === "key") {
      const [network, asset, payer, nonce] = [from.text(), from.text(), from.text(), from.text()];
      intent[field] = { network, asset, payer, nonce };
    } else if (from.boolean()) intent[field] = form === "optional" ? from.text() : from.other();
    else intent[field] = undefined;
  }
  return intent as PaymentIntent;
}

const KEY_PARTS = ["network", "asset", "payer", "nonce"] as const;

function writeDelivery(to: FlatWriter, { keys, bodyHash, windowMs }: Delivery): void {
  to.number(keys.length);
  for (const { key, identifies } of keys) {
    to.text(key);
    to.boolean(identifies);
  }
  to.text(bodyHash);
  to.number(windowMs);
}

function readDelivery(from: FlatReader): Delivery {
  const keys = Array.from({ length: from.number() }, () => ({
    key: from.text(),
    identifies: from.boolean(),
  }));
  return { keys, bodyHash: from.text(), windowMs: from.number() };
}

function writeLease(to: FlatWriter, { callId, leaseToken }: Lease): void {
  to.number(callId);
  to.text(leaseToken);
}

function readLease(from: FlatReader): Lease {
  return { callId: from.number(), leaseToken: from.text() };
}

function writeResult(to: FlatWriter, result: JobResult | undefined): void {
  to.boolean(result !== undefined);
  if (result === undefined) return;
  to.bytes(result.body);
  to.text(result.contentType);
  const { status, headers, storedBytes } = result;
  const isPlain = status === undefined && headers === undefined && storedBytes === undefined;
  to.boolean(isPlain);
  if (!isPlain) to.other([status, headers, storedBytes]);
}

type AnswerFields = [JobResult["status"], JobResult["headers"], JobResult["storedBytes"]];

function readResult(from: FlatReader): JobResult | undefined {
  if (!from.boolean()) return undefined;
  const [body, contentType] = [from.bytes(), from.text()];
  const [status, headers, storedBytes] = from.boolean() ? [] : (from.other() as AnswerFields);
  return { body, contentType, status, headers, storedBytes };
}

function writeClaimed(to: FlatWriter, { calls, suspectsLeft = false, ...rest }: Claimed): void {
  to.number(calls.length);
  for (const call of calls) {
    writeLease(to, call);
    to.bytes(call.encoded);
    to.number(call.attempt);
    to.number(call.forgiven);
    to.number(call.enqueuedAt);
    to.number(call.leaseExpiresAt);
    to.boolean(call.suspect);
    to.boolean(call.deferred);
  }
  to.boolean(suspectsLeft);
  to.other(rest);
}

function readClaimed(from: FlatReader): Claimed {
  // The object is built without a spread, because in V8 11 a spread costs more than the rest of the function.
  const calls = Array.from({ length: from.number() }, () => ({
    callId: from.number(),
    leaseToken: from.text(),
    encoded: from.bytes(),
    attempt: from.number(),
    forgiven: from.number(),
    enqueuedAt: from.number(),
    leaseExpiresAt: from.number(),
    suspect: from.boolean(),
    deferred: from.boolean(),
  }));
  const suspectsLeft = from.boolean();
  const { deadLettered, nextInMs } = from.other() as Pick<Claimed, "deadLettered" | "nextInMs">;
  return { calls, suspectsLeft, deadLettered, nextInMs };
}
