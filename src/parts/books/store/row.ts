import type { Movement, MovementKind } from "./ledger.ts";

/** Columns of a row of `movements`. */
export interface MovementRow {
  id: number;
  at: number;
  kind: MovementKind;
  call_id: number | null;
  service_id: string | null;
  job_index: number | null;
  network: string;
  asset: string | null;
  symbol: string | null;
  decimals: number;
  amount: string;
  account: string | null;
  counterparty: string | null;
  transaction_hash: string | null;
  block_number: string | null;
  price: string | null;
  rate: string | null;
}

/** Row that gets its ID when it is inserted. */
export type NewMovementRow = Omit<MovementRow, "id">;

/** Columns of a new row. */
export const MOVEMENT_COLUMNS = [
  "at",
  "kind",
  "call_id",
  "service_id",
  "job_index",
  "network",
  "asset",
  "symbol",
  "decimals",
  "amount",
  "account",
  "counterparty",
  "transaction_hash",
  "block_number",
  "price",
  "rate",
] as const satisfies readonly (keyof MovementRow)[];

export function toMovement(row: MovementRow): Movement {
  const { id, at, kind, network, amount, asset, symbol, decimals, account, counterparty } = row;
  const { transaction_hash: transaction, block_number: block, rate } = row;
  const { call_id: callId, service_id: serviceId, job_index: jobIndex, price } = row;
  return {
    ...{ id, at, kind, network, amount, decimals },
    token: asset === null || symbol === null ? undefined : { asset, symbol },
    account: account ?? undefined,
    counterparty: counterparty ?? undefined,
    transaction: transaction ?? undefined,
    block: block ?? undefined,
    sale:
      callId === null || serviceId === null || jobIndex === null || price === null
        ? undefined
        : { ...{ callId, serviceId: BigInt(serviceId), jobIndex, price }, rate: rate ?? undefined },
  };
}
