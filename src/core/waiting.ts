/** Longest time that a timer of Node waits. A longer timer ends at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Returns the result of the work; undefined if the work takes longer. The work continues. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, ms, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
