import { movedElsewhere } from "../../../core/payment.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import { add, type Effect, type Reactions } from "../../../store/machine/changes.ts";
import type { SchemaDialect, StoreModule } from "../../../store/module.ts";
import type { SoldPayment } from "../../../store/payment-row.ts";
import type { Table } from "../../../store/rows.ts";
import type { StoreTotals } from "../../../store/store.ts";
import type { PaymentAlert, PaymentAlertKind, PaymentAlertLedger } from "./ledger.ts";

interface AlertRow {
  readonly id: number;
  readonly kind: PaymentAlertKind;
  readonly at: number;
  readonly call_id: number;
  readonly service_id: string;
  readonly job_index: number;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly payer: string;
  readonly amount: string;
  readonly reason: string;
}

const TABLE: Table<AlertRow, "id"> = {
  name: "payment_alerts",
  key: ["id"],
  columns: [
    ...(["id", "kind", "at", "call_id", "service_id", "job_index", "network", "asset", "symbol"] as const),
    ...(["payer", "amount", "reason"] as const),
  ],
};

const alertsSchema = ({ schema, integer, id, plain }: SchemaDialect): string => `
-- Decided payments that a person should look at, in the order in which that became known.
CREATE TABLE ${schema}payment_alerts (
  id         ${id},
  kind       TEXT NOT NULL CHECK (kind IN ('charge_lost', 'paid', 'not_paid')),
  at         ${integer} NOT NULL,
  call_id    ${integer} NOT NULL,
  service_id TEXT NOT NULL,
  job_index  ${integer} NOT NULL,
  network    TEXT NOT NULL,
  asset      TEXT NOT NULL,
  symbol     TEXT NOT NULL,
  payer      TEXT NOT NULL,
  -- Base units that were not charged, or that moved all the same, or that were recorded and did not move.
  amount     TEXT NOT NULL,
  reason     TEXT NOT NULL,
  UNIQUE (call_id, kind, at)
)${plain};
CREATE INDEX payment_alerts_by_time ON ${schema}payment_alerts (at, kind);
CREATE INDEX payment_alerts_by_kind ON ${schema}payment_alerts (kind, id);
`;

const REACTIONS: Reactions = {
  paymentDecided({ payment }) {
    const { state, charge, closed, updated_at: at } = payment;
    // A decision of the operator needs no alert.
    if (state === "failed" && charge !== "before" && closed === null)
      return alert("charge_lost", payment, at);
    return isPaidAfterAll(payment) ? alert("paid", payment, at) : [];
  },

  paymentContradicted({ payment, at }) {
    if (payment.state === "settled") return alert("not_paid", payment, at);
    const { amount } = movedElsewhere(payment.settlement ?? undefined) ?? payment;
    return alert("paid", { ...payment, amount }, at);
  },
};

/** Reports whether a payment that was recorded as failed is settled, and not by the operator. */
function isPaidAfterAll({ state, reason, closed }: SoldPayment): boolean {
  if (state !== "settled" || reason === null) return false;
  return closed === null || (JSON.parse(closed) as { readonly as: string }).as !== "paid";
}

function alert(kind: PaymentAlertKind, payment: SoldPayment, at: number): Effect[] {
  const { call_id, service_id, job_index, network, asset, symbol, payer, amount } = payment;
  const sold = { call_id, service_id, job_index, network, asset, symbol, payer, amount };
  return [add(TABLE, { ...sold, kind, at, reason: payment.reason ?? "" })];
}

const DAY_MS = 86_400_000;
/** Days before the day of the newest alert that are counted. */
const COUNTED_DAYS = 7;

interface CountedAlerts {
  readonly paymentAlerts: readonly {
    readonly kind: PaymentAlertKind;
    readonly day: number;
    readonly n: number;
  }[];
}

/** Decided payments that a person should look at. */
export const PAYMENT_ALERTS: StoreModule<PaymentAlertLedger> = {
  schema: { table: TABLE.name, sql: alertsSchema },
  forOperator: ["listPaymentAlerts"],
  on: REACTIONS,
  forgottenWithPayments: [{ table: TABLE.name, if: () => "TRUE" }],
  counted: {
    queries: {
      paymentAlerts: ({ schema }) => ({
        values: { kind: "kind", day: `at / ${DAY_MS}`, n: "count(*)" },
        from: `FROM ${schema}payment_alerts
          WHERE at >= (SELECT max(at) FROM ${schema}payment_alerts) - ${COUNTED_DAYS * DAY_MS} GROUP BY kind, at / ${DAY_MS}`,
      }),
    },
    totals: ({ paymentAlerts }: CountedAlerts, { sums }) => ({ sums: { ...sums, paymentAlerts } }),
  },

  lookups: {
    *listPaymentAlerts(
      { dialect },
      { kind, limit, before = Number.MAX_SAFE_INTEGER },
    ): Lookup<PaymentAlert[]> {
      const { values, add } = parameters(dialect);
      const isWanted = [...(kind === undefined ? [] : [`kind = ${add(kind)}`]), `id < ${add(before)}`];
      const sql = `SELECT ${TABLE.columns.join(", ")} FROM ${dialect.schema}payment_alerts
        WHERE ${isWanted.join(" AND ")} ORDER BY id DESC LIMIT ${add(limit)}`;
      return ((yield { sql, values }) as AlertRow[]).map(toAlert);
    },
  },
};

function toAlert({ call_id: callId, service_id, job_index: jobIndex, ...row }: AlertRow): PaymentAlert {
  return { ...row, callId, serviceId: BigInt(service_id), jobIndex };
}

/** Counts the alerts of each kind of a day and the six days before. */
export function alertsOfWeek({ sums }: StoreTotals, now: number): Record<PaymentAlertKind, number> {
  const counts = { charge_lost: 0, paid: 0, not_paid: 0 };
  const first = Math.floor(now / DAY_MS) - COUNTED_DAYS + 1;
  const counted = (sums.paymentAlerts ?? []) as CountedAlerts["paymentAlerts"];
  for (const { kind, day, n } of counted) if (day >= first) counts[kind] += n;
  return counts;
}
