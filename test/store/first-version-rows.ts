import { expect } from "vitest";
import type { Store } from "../../src/store/store.ts";

/** A settled payment with its result, as the first version of both schemas holds it. */
export const SETTLED_IN_FIRST_VERSION = {
  callId: 7,
  key: { network: "eip155:1", asset: "0xa", payer: "0xb", nonce: "0xc" },
};

/** @param schema prefix of table names: empty, or with a dot at its end */
export function settledRows(schema: string): string[] {
  return [
    `INSERT INTO ${schema}payments (network, asset, payer, nonce, state, call_id, service_id, job_index, fingerprint,
       body_hash, x402_version, payload, requirements, transfer_method, pay_to, amount, symbol, price_wei,
       valid_before_secs, receipt, settlement, created_at, updated_at)
     VALUES ('eip155:1', '0xa', '0xb', '0xc', 'intent', 7, '1', 0, 'f', 'h', 2, '{}', '{}', 'eip3009', '0xd', '1',
       'USDC', '1', 1800000000, 'receipt', '{}', 1, 1)`,
    `UPDATE ${schema}payments SET state = 'settled'`,
    `INSERT INTO ${schema}results (call_id, state, attempt, enqueued_at, finished_at)
     VALUES (7, 'succeeded', 1, 1, 1)`,
  ];
}

/** The list's row of the call of {@link settledRows}, as the first versions that have such a table hold it. */
export function finishedRow(schema: string): string {
  return `INSERT INTO ${schema}finished_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at, finished_at)
     VALUES (7, 'x402', '0', '1', 'succeeded', 1, 1, 1)`;
}

/** A dead letter, as the first version of both schemas holds it. */
export function deadLetterRow(schema: string): string {
  return `INSERT INTO ${schema}job_calls (call_id, origin, job_id, service_id, state, attempts, enqueued_at, dead_at, dead_reason)
     VALUES (1000, 'webhook', '30', '1', 'dead', 3, 1, 2, 'no ink')`;
}

/** A quote that the payment of {@link settledRows} redeemed, as schemas without `redeems_quote` hold it. */
export function redeemedQuoteRow(schema: string): string {
  return `INSERT INTO ${schema}quotes VALUES ('receipt', '{}', ${Number.MAX_SAFE_INTEGER})`;
}

/** Checks that the books have the payment of {@link settledRows}, and nothing that its version did not keep. */
export async function expectFirstMovement(store: Store): Promise<void> {
  const until = Number.MAX_SAFE_INTEGER;
  expect(await store.listMovements({ after: { at: 0, id: 0 }, until, limit: 9 })).toEqual([
    {
      id: expect.any(Number),
      ...{ at: 1, kind: "payment", network: "eip155:1", amount: "1", account: "0xd", counterparty: "0xb" },
      token: { asset: "0xa", symbol: "USDC" },
      sale: { callId: SETTLED_IN_FIRST_VERSION.callId, serviceId: 1n, jobIndex: 0, price: "1" },
    },
  ]);
}
