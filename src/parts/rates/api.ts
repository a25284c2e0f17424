/** `jobgate/rates`: rates of tokens that follow a price feed or a URL. */

export type { RateSource } from "./config.ts";
export { LiveRates } from "./live-rates.ts";
