import type { Part } from "../../part.ts";
import { priceKeys } from "./config.ts";

/** Prices that depend on the request: on its size, a value in its body, query, path or headers. */
export const part: Part = {
  entries: priceKeys,
  async x402(services) {
    const { PricesOfRequests } = await import("./request-prices.ts");
    return new PricesOfRequests(services);
  },
};
