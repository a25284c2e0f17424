/** Runs something for each case at once, for cases that mostly wait, and throws the first failure with its case. */
export async function atOnce<Case>(
  cases: readonly Case[],
  run: (one: Case) => Promise<unknown>,
): Promise<void> {
  // A failure waits for the others: they stop what they have started.
  const ends = await Promise.allSettled(cases.map(run));
  for (const [i, end] of ends.entries())
    if (end.status === "rejected")
      throw new Error(`${JSON.stringify(cases[i])}: ${end.reason}`, { cause: end.reason });
}
