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

/** An operation that is asked for, with {@link Ref}s in its arguments. */
export interface Asked {
  readonly place: Place;
  readonly input: readonly unknown[];
}

/** Operations of one kind that are asked for at once, or a move of the clock by the milliseconds of its one input. */
export interface Step {
  readonly name: string;
  readonly asked: readonly Asked[];
}

/** Returns the milliseconds by which a step moves the clock. */
export function movedMs({ name, asked }: Step): number {
  return name === "tick" ? Number(asked[0]?.input[0]) : 0;
}

/** Returns a line about each operation of a step. */
export function linesOf({ name, asked }: Step): string[] {
  return asked.map(({ place, input }) => `${place} ${name}(${input.map(textOf).join(", ")})`);
}

/** Longest text that is shown whole. */
const LONGEST_SHOWN = 48;

/** Returns a short text of arguments and outcomes. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => shown(inner)) ?? "undefined";
}

function shown(value: unknown): unknown {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "string" && value.length > LONGEST_SHOWN) return `${value.slice(0, LONGEST_SHOWN)}…`;
  if (isRef(value)) {
    const { ref, call } = value;
    if (ref === "lease") return `<lease of ${call} by ${value.claim}>`;
    return ref === "call" ? `<call ${call}>` : `<${ref} ${value.index} of ${call}>`;
  }
  return value;
}
