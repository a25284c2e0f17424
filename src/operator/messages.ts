import type { Config } from "../config/config.ts";
import { oneSpelling, type PaymentState as PaymentStateName } from "../core/payment.ts";
import { CallState, EventSchema, PaymentState } from "../gen/jobgate/v1/operator_pb.ts";
import type { ListedState } from "../store/contract/operator-lists.ts";

/** JSON of the API: snake_case names, zero and empty values included. A u64 is a string. */
export const JSON_OPTIONS = { useProtoFieldName: true, alwaysEmitImplicit: true } as const;

/** Returns the name of a number of the API; undefined for UNSPECIFIED and for numbers that this version does not know. */
export function nameIn<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  message: number,
): Name | undefined {
  return (Object.keys(numbers) as Name[]).find((name) => numbers[name] === message);
}

/** Returns the numbers of an enum of the API by their names in lower case, without UNSPECIFIED. */
export function numbersOf<Number extends number>(
  numbers: Readonly<Record<string, string | Number>>,
): Readonly<Record<string, Number>> {
  const named = Object.entries(numbers).flatMap(([name, number]) =>
    typeof number === "number" && number > 0 ? [[name.toLowerCase(), number] as const] : [],
  );
  return Object.fromEntries(named);
}

/** Names of the events of the API. */
export const EVENT_NAMES = EventSchema.fields.flatMap(({ oneof, localName }) =>
  oneof === undefined ? [] : localName,
);

/** Returns the numbers of the states in an event of a part by their names; none for an event that this version does not know. */
export function statesInEvent(name: string): Readonly<Record<string, number>> {
  const event = EventSchema.fields.find(({ localName }) => localName === name)?.message;
  const states = event?.field.state?.enum?.values ?? [];
  return numbersOf(Object.fromEntries(states.map(({ localName, number }) => [localName, number])));
}

/** The API's number for each state of a payment. */
export const PAYMENT_STATES = {
  intent: PaymentState.INTENT,
  settled: PaymentState.SETTLED,
  failed: PaymentState.FAILED,
  unresolved: PaymentState.UNRESOLVED,
  authorized: PaymentState.AUTHORIZED,
  settling: PaymentState.SETTLING,
  released: PaymentState.RELEASED,
} as const satisfies Record<PaymentStateName, PaymentState>;

/** Returns the decimals of a token; undefined for a token that is not in the configuration. */
export type DecimalsOf = (token: { readonly network: string; readonly asset: string }) => number | undefined;

/** Finds the decimals of tokens in the configuration in use. */
export function decimalsIn(configuration: () => Pick<Config, "x402">): DecimalsOf {
  return ({ network, asset }) =>
    configuration().x402?.acceptedTokens.find(
      (token) => token.network === network && oneSpelling(token.asset) === oneSpelling(asset),
    )?.decimals;
}

/** The API's number for each state of a JobCall. */
export const CALL_STATES = {
  held: CallState.HELD,
  ready: CallState.READY,
  leased: CallState.LEASED,
  done: CallState.DONE,
  dead: CallState.DEAD,
  failed: CallState.FAILED,
  dropped: CallState.DROPPED,
} as const satisfies Record<ListedState, CallState>;
