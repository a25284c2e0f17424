import { GatewayError } from "../core/errors.ts";

/** The refusal of whoever cannot say now what a job costs: to be asked again in 2 s. */
export function priceUnavailable(reason: string, cause?: unknown): GatewayError {
  return new GatewayError(
    "price_unavailable",
    `There is no price for this job now: ${reason}. Nothing was charged: ask again.`,
    {
      ...(cause === undefined ? {} : { cause }),
      headers: { "retry-after": "2" },
    },
  );
}
