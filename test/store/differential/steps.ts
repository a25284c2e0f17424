import type { OperationName } from "../../../src/store/operations.ts";

/** Place of an operation in a run: the step's number, and the operation's place in the step. */
export type Place = `${number}.${number}`;

/**
 * Names of what only a store knows, in the arguments of operations. Each store has its own ids and lease tokens.
 * - `call`: id of the JobCall that the operation at a place made.
 * - `lease`: lease that the claim at a place gave out on a JobCall.
 * - `callback`, `attempts`: id and attempts of one of a JobCall's callbacks, the oldest first.
 */
export type Ref =
  | { readonly ref: "call"; readonly call: Place }
  | { readonly ref: "lease"; readonly claim: Place; readonly call: Place }
  | { readonly ref: "callback" | "attempts"; readonly call: Place; readonly index: number };

export const callRef = (call: Place): Ref => ({ ref: "call", call });

export function isRef(value: unknown): value is Ref {
  return typeof value === "object" && value !== null && "ref" in value;
}

/** Operations of one kind that are asked for at once, or a move of the clock by `inputs[0][0]` milliseconds. */
export interface Step {
  readonly number: number;
  readonly name: OperationName | "tick";
  /** Arguments of each operation, with {@link Ref}s. */
  readonly inputs: readonly (readonly unknown[])[];
}

/** Returns a line about each operation of a step. */
export function linesOf({ number, name, inputs }: Step): string[] {
  return inputs.map((input, index) => `${number}.${index} ${name}(${input.map(textOf).join(", ")})`);
}

/** Returns a short text of arguments and outcomes. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => shown(inner)) ?? "undefined";
}

function shown(value: unknown): unknown {
  if (typeof value === "bigint") return `${value}n`;
  if (isRef(value)) {
    const { ref, call } = value;
    if (ref === "lease") return `<lease of ${call} by ${value.claim}>`;
    return ref === "call" ? `<call ${call}>` : `<${ref} ${value.index} of ${call}>`;
  }
  return value;
}
