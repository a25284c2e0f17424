import { GatewayError } from "../core/errors.ts";

/** The same answer whatever was wrong: who is not known learns nothing. */
export function unauthorized(): GatewayError {
  return new GatewayError("unauthorized", "unauthorized");
}
