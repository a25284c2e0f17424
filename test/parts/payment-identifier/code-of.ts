import { GatewayError } from "../../../src/core/errors.ts";

/** Returns the code of the refusal that a function throws; undefined if it throws none. */
export function codeOf(deed: () => unknown): unknown {
  try {
    deed();
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
  return undefined;
}
