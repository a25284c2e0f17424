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

/** A quote that the payment of {@link settledRows} redeemed, as schemas without `redeems_quote` hold it. */
export function redeemedQuoteRow(schema: string): string {
  return `INSERT INTO ${schema}quotes VALUES ('receipt', '{}', ${Number.MAX_SAFE_INTEGER})`;
}
