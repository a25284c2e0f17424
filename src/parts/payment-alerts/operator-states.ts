import { PaymentAlertKind } from "../../gen/jobgate/v1/operator_pb.ts";
import type { PaymentAlertKind as KindName } from "./store/ledger.ts";

/** The API's number for each kind of alert. */
export const ALERT_KINDS = {
  charge_lost: PaymentAlertKind.CHARGE_LOST,
  paid: PaymentAlertKind.PAID,
  not_paid: PaymentAlertKind.NOT_PAID,
} as const satisfies Record<KindName, PaymentAlertKind>;
