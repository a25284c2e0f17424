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
  /** Returns the place of an answered operation that can only have happened after all operations of lower places. */
  placeOf?(op: Op): number | undefined;
}

/**
 * Reports whether a history of concurrent operations has an order in which each takes effect at one moment between its
 * question and its answer, and in which the model gives the same answers. Tries all orders, and no state twice (Wing and
 * Gong, with the cache of Lowe).
 */
export function isLinearizable<State extends string | number, Op extends Operation>(
  history: readonly Op[],
  { initial, step, placeOf = () => undefined }: Model<State, Op>,
): boolean {
  // The search tries first what it adds last, and operations mostly take effect in the order of their answers.
  const latestFirst = history.toSorted((a, b) => b.to - a.to || 0);
  const seen = new Set<string>();
  const open: { readonly done: bigint; readonly state: State }[] = [{ done: 0n, state: initial }];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const { done, state } = at;
    const left = latestFirst.flatMap((op, i) =>
      (done >> BigInt(i)) & 1n ? [] : [{ op, bit: 1n << BigInt(i) }],
    );
    const firstAnswer = Math.min(...left.map(({ op }) => op.to));
    if (firstAnswer === Number.POSITIVE_INFINITY) return true;
    const firstPlace = Math.min(...left.map(({ op }) => placeOf(op) ?? Number.POSITIVE_INFINITY));
    for (const { op, bit } of left) {
      // Somebody had an answer before this was asked, or an operation of an earlier place is left.
      if (op.from > firstAnswer || (placeOf(op) ?? firstPlace) > firstPlace) continue;
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
