import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Config } from "../../config/config.ts";
import { amountText } from "../../core/amounts.ts";
import type { Clock } from "../../core/clock.ts";
import type { ListPaymentAlertsRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import { type DecimalsOf, decimalsIn, nameIn } from "../../operator/messages.ts";
import type { ApiAddition } from "../../operator/methods.ts";
import { invalid, readPage } from "../../operator/requests.ts";
import { ALERT_KINDS } from "./operator-states.ts";
import type { PaymentAlert, PaymentAlertKind, PaymentAlertLedger } from "./store/ledger.ts";
import { alertsOfWeek } from "./store/module.ts";

/** Adds alerts about payments to the operator's API. */
export function alertOperation(parts: {
  readonly ledger: PaymentAlertLedger;
  readonly configuration: () => Pick<Config, "x402">;
  readonly clock: Clock;
}): ApiAddition {
  const { ledger, configuration, clock } = parts;
  return {
    methods: {
      async listPaymentAlerts(request: ListPaymentAlertsRequest) {
        const kind = nameIn(ALERT_KINDS, request.kind);
        if (kind === undefined && request.kind !== 0) throw invalid("kind: expected a PaymentAlertKind.");
        const { items, nextPageToken } = await readPage(request, async (range) => ({
          items: await ledger.listPaymentAlerts({ kind, ...range }),
        }));
        return { alerts: items.map((alert) => toAlert(alert, decimalsIn(configuration))), nextPageToken };
      },
    },
    totals: (totals) => ({
      paymentAlerts: Object.entries(alertsOfWeek(totals, clock())).flatMap(([kind, count]) =>
        count === 0 ? [] : { kind: ALERT_KINDS[kind as PaymentAlertKind], count: BigInt(count) },
      ),
    }),
  };
}

function toAlert({ id, kind, at, callId, ...alert }: PaymentAlert, decimalsOf: DecimalsOf) {
  return {
    ...alert,
    id: BigInt(id),
    kind: ALERT_KINDS[kind],
    at: timestampFromMs(at),
    callId: BigInt(callId),
    amountText: amountText(alert.amount, alert.symbol, decimalsOf(alert)),
  };
}
