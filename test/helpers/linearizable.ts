/** Something that a client asked, with the answer it got if it got one. Times are of one monotonic clock. */
export interface Operation {
  readonly from: number;
  /** Infinity without an answer: it may take effect at any time after `from`, or never. */
  readonly to: number;
}

/** A thing that does one operation after the other. */
export interface Model<State extends string | number, Op extends Operation> {
  readonly initial: State;
  /** Returns the state after an operation; undefined when the operation could not have had its answer in this state. */
  step(state: State, op: Op): State | undefined;
}

/**
 * Reports whether a history of concurrent operations has an order in which each takes effect at one moment between its
 * question and its answer, and in which the model gives the same answers. Tries all orders, and no state twice (Wing and
 * Gong, with the cache of Lowe).
 */
export function isLinearizable<State extends string | number, Op extends Operation>(
  history: readonly Op[],
  { initial, step }: Model<State, Op>,
): boolean {
  const seen = new Set<string>();
  const open: { readonly done: bigint; readonly state: State }[] = [{ done: 0n, state: initial }];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const { done, state } = at;
    const left = history.flatMap((op, i) => ((done >> BigInt(i)) & 1n ? [] : [{ op, bit: 1n << BigInt(i) }]));
    const firstAnswer = Math.min(...left.map(({ op }) => op.to));
    if (firstAnswer === Number.POSITIVE_INFINITY) return true;
    for (const { op, bit } of left) {
      // Somebody had an answer before this was asked.
      if (op.from > firstAnswer) continue;
      const next = step(state, op);
      // Without an answer and without an effect it is as if it never was.
      if (next === undefined || (op.to === Number.POSITIVE_INFINITY && next === state)) continue;
      const key = `${done | bit} ${next}`;
      if (seen.has(key)) continue;
      seen.add(key);
      open.push({ done: done | bit, state: next });
    }
  }
  return false;
}
