import type { WorldMutant } from "./mutant.ts";

const SENDER = "parts/callbacks/callback-sender.ts";
const CALLBACKS = "parts/callbacks/store/module.ts";
const ANSWER = "parts/callbacks/callback-answer.ts";

/** Guards of deliveries and callbacks that are missed in some world. */
export const DELIVERY_MUTANTS: readonly WorldMutant[] = [
  {
    name: "a claim counts no attempt",
    parts: [],
    seed: 37,
    file: "store/sqlite/operations/claims.ts",
    ...{ from: "SET state = 'leased', attempts = attempts + 1,", to: "SET state = 'leased'," },
  },
  {
    name: "a JobCall is sent although its lease is over",
    seed: 67,
    file: "delivery/subscription.ts",
    ...{ from: "if (lease.expiresAt <= this.#clock()) {", to: "if (lease.expiresAt === 0) {" },
  },
  {
    name: "a runner gets more JobCalls than it asked for",
    parts: ["long work"],
    seed: 16,
    file: "delivery/subscription.ts",
    ...{ from: "Math.min(this.#maxInFlight - this.#out.size, MAX_CLAIMED_AHEAD)", to: "MAX_CLAIMED_AHEAD" },
  },
  {
    name: "a stream that is over is written to",
    parts: ["webhooks"],
    seed: 14,
    file: "grpc/grpc-call.ts",
    ...{ from: "written.length === 0 || this.#status !== undefined", to: "written.length === 0" },
  },
  {
    name: "a refusal of a push target counts as done",
    parts: ["push targets"],
    seed: 14,
    file: "parts/push/push-answer.ts",
    ...{ from: "if (isSuccess(status)) return", to: "if (status >= 200) return" },
  },
  {
    name: "a pushed JobCall is not signed",
    parts: ["push targets"],
    seed: 37,
    file: "parts/push/cloud-event.ts",
    ...{ from: "if (keys.length === 0) return {};", to: "if (keys.length >= 0) return {};" },
  },
  {
    name: "a callback has another id each time",
    parts: ["callbacks"],
    seed: 31,
    file: "parts/callbacks/callback-request.ts",
    ...{ from: "const id = `", to: "const id = Math.random() + `" },
  },
  {
    name: "two gateways call back at a time",
    seed: 5,
    file: "core/lease-lock.ts",
    ...{
      from: "this.#heldAt = (await locks.holdLock(name, owner, heldMs)) ? now : undefined;",
      to: "this.#heldAt = now;",
    },
  },
  {
    name: "a host gets two callbacks at a time",
    parts: ["callbacks"],
    seed: 37,
    file: SENDER,
    ...{ from: "!busy.has(host) && this", to: "this" },
  },
  {
    name: "a callback goes to a private address",
    parts: ["callbacks"],
    seed: 62,
    file: "parts/outbound/guarded-lookup.ts",
    ...{ from: "if (!found.every(({ address }) => guard.allows(address)))", to: "if (found.length === 0)" },
  },
  {
    name: "a callback that failed is given up",
    parts: ["callbacks"],
    seed: 14,
    file: ANSWER,
    ...{ from: "if (isFinal) return", to: "if (reason) return" },
  },
  {
    name: "a callback that failed counts as sent",
    parts: ["callbacks"],
    seed: 18,
    file: ANSWER,
    ...{ from: "if (reason === undefined) return", to: "if (attempts >= 0) return" },
  },
  {
    name: "a metered job sends no callback",
    parts: ["callbacks"],
    seed: 14,
    ...{
      file: CALLBACKS,
      from: "payment.ceiling !== null && isCertain",
      to: 'payment.ceiling === "" && isCertain',
    },
  },
  {
    name: "the URL that a buyer gave is not called",
    parts: ["callbacks"],
    seed: 14,
    file: CALLBACKS,
    ...{ from: "known.notes(boughtCall)?.[CALLBACK_URL]", to: "undefined" },
  },
  {
    name: "a dead letter sends no callback",
    parts: ["callbacks"],
    seed: 14,
    ...{
      file: CALLBACKS,
      from: '...called(callEnded(call, "failed", at), known),',
      to: "",
    },
  },
];
