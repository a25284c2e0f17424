/** Current time in Unix milliseconds. Always an argument, so that tests control it. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();
