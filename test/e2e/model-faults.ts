import type { Fault } from "../helpers/fault.ts";
import type { PaidGateway } from "./paid-gateway.ts";

/** Fault of the facilitator, or of the connection to it, for one request. */
export const FACILITATOR_FAULTS = {
  "lost request": { kind: "cut" },
  "lost answer": { kind: "lose-answer" },
  "late request": { kind: "delay-request", ms: 300 },
  "late answer": { kind: "delay-answer", ms: 1_500 },
  "status 500": { kind: "answer", status: 500, body: "" },
  no: { kind: "answer", status: 200, body: { success: false, isValid: false, network: "eip155:84532" } },
  "a lie": {
    kind: "answer",
    status: 200,
    body: { isValid: true, success: true, transaction: `0x${"1e".repeat(32)}`, network: "eip155:84532" },
  },
} as const satisfies Readonly<Record<string, Fault>>;

export type FaultName = keyof typeof FACILITATOR_FAULTS;
export const FAULT_NAMES = Object.keys(FACILITATOR_FAULTS) as FaultName[];

export const RPC_FAULTS: Readonly<Record<"cut" | "delay" | "500", Fault>> = {
  cut: { kind: "cut" },
  delay: { kind: "delay-answer", ms: 300 },
  "500": { kind: "answer", status: 500, body: "" },
};

const PASS: Fault = { kind: "pass" };
const HOLD: Fault = { kind: "delay-request", ms: 200 };

/**
 * Makes something happen when jobgate asks for the settlement of the payment with this nonce.
 * @param settling a fault, or an event, which the request to settle is held for
 * @returns `asked` resolves with the request, and `meanwhile` is the event, if it is one
 */
export function atSettling<Meanwhile extends string>(
  { facilitatorProxy }: PaidGateway,
  nonce: string,
  settling: "pass" | FaultName | Meanwhile,
): { readonly asked: Promise<void>; readonly meanwhile: Meanwhile | undefined } {
  const faults: Readonly<Record<string, Fault>> = { pass: PASS, ...FACILITATOR_FAULTS };
  const fault = faults[settling];
  const asked = new Promise<void>((resolve) => {
    const when = (request: { body: Buffer }): boolean => {
      if (!request.body.includes(nonce)) return false;
      resolve();
      return true;
    };
    facilitatorProxy.add({ path: "/settle", times: 1, when, fault: fault ?? HOLD });
  });
  return { asked, meanwhile: fault === undefined ? (settling as Meanwhile) : undefined };
}
