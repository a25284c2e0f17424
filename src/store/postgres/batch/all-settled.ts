/**
 * Like Promise.all, but also when one of them fails it waits for the others: a transaction must not be rolled back, and
 * its connection handed on, while something is still at work in it.
 * @throws what the first to fail did: the others may only have failed because of it
 */
export async function allSettled<T extends readonly unknown[] | []>(
  steps: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const all = Promise.all(steps);
  await Promise.allSettled([all, ...steps]);
  return all;
}
