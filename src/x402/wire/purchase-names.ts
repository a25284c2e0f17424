import type { GatewayError } from "../../core/errors.ts";
import type { Payload } from "./version.ts";

/**
 * Names that payers give their purchases in payloads, over any protocol. All payments of a payer under one name are one purchase.
 * A part adds them by `Part.purchaseNames`; a protocol can have names of its own.
 */
export interface PurchaseNames {
  /** Reads the name in a payload. @returns undefined when there is none @throws GatewayError `invalid_payment` */
  read(payload: Payload): string | undefined;
  /**
   * Returns the refusal of another purchase under a name that the payer has used.
   * @param what all in which that purchase may differ, such as "job, request or body"
   */
  taken(what: string): GatewayError;
}
