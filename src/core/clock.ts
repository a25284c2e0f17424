/** The current time in Unix milliseconds. An argument everywhere, so that tests can move it. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();
