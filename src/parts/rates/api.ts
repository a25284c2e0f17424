/** `jobgate/rates`: rates of tokens that follow a price feed or a URL. */

export { LiveRates } from "./live-rates.ts";
