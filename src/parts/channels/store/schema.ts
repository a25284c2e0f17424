import type { SchemaDialect } from "../../../store/module.ts";

/**
 * SQL condition of charges whose outcomes are not in the sums of their channels yet, and whose calls or deposits may have been
 * decided.
 */
export const IS_ENDED = "is_counted = 0 AND (state IN ('undecided', 'kept', 'returned') OR deposit <> '0')";

/** SQL condition of channels that are claimed first, because the operator requested it or the payer may withdraw. */
export const IS_URGENT = "due_since IS NOT NULL AND (claim_soon = 1 OR status <> 'open')";

/** Returns the SQL of the tables of channels. */
export const channelsSchema = ({ schema, integer, sum, id, plain, small }: SchemaDialect): string => `
-- Payment channels. Amounts are token units.
CREATE TABLE ${schema}channels (
  channel_id  TEXT PRIMARY KEY,
  network     TEXT NOT NULL,
  asset       TEXT NOT NULL,
  symbol      TEXT NOT NULL,
  decimals    ${integer} NOT NULL,
  config      TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('open', 'refunding', 'withdrawing', 'stopped')),
  reason      TEXT,
  -- The highest voucher whose call was not charged back, the highest whose charge is final, and the highest that was taken.
  base        TEXT NOT NULL,
  base_call   ${integer},
  kept        TEXT NOT NULL,
  signed      TEXT NOT NULL,
  signature   TEXT NOT NULL,
  balance     TEXT NOT NULL,
  balance_block ${integer} NOT NULL,
  charged     TEXT NOT NULL,
  final       TEXT NOT NULL,
  claimed     TEXT NOT NULL,
  lost        TEXT NOT NULL,
  asked       TEXT NOT NULL,
  deposits    ${integer} NOT NULL,
  due_since   ${integer},
  claim_soon  ${integer} NOT NULL,
  withdraw_at ${integer},
  refund      TEXT,
  created_at  ${integer} NOT NULL,
  updated_at  ${integer} NOT NULL
)${plain};
CREATE INDEX channels_due ON ${schema}channels (network, due_since, channel_id) WHERE due_since IS NOT NULL;
CREATE INDEX channels_urgent ON ${schema}channels (network, due_since, channel_id) WHERE ${IS_URGENT};
CREATE INDEX channels_due_by_token ON ${schema}channels (network, asset, symbol, due_since) WHERE due_since IS NOT NULL;
CREATE INDEX channels_refunding ON ${schema}channels (network, channel_id) WHERE status = 'refunding';
CREATE INDEX channels_by_status ON ${schema}channels (status, created_at, channel_id);
CREATE INDEX channels_by_age ON ${schema}channels (created_at, channel_id);
CREATE INDEX channels_by_network ON ${schema}channels (network, channel_id);

-- Channels of each token by their states, and the sums of their amounts.
CREATE TABLE ${schema}channel_sums (
  network     TEXT NOT NULL,
  asset       TEXT NOT NULL,
  symbol      TEXT NOT NULL,
  open        ${sum} NOT NULL,
  refunding   ${sum} NOT NULL,
  withdrawing ${sum} NOT NULL,
  stopped     ${sum} NOT NULL,
  balance     ${sum} NOT NULL,
  charged     ${sum} NOT NULL,
  final       ${sum} NOT NULL,
  claimed     ${sum} NOT NULL,
  lost        ${sum} NOT NULL,
  PRIMARY KEY (network, asset, symbol)
)${small};

-- Calls that were paid from channels.
CREATE TABLE ${schema}channel_charges (
  call_id    ${integer} PRIMARY KEY,
  channel_id TEXT NOT NULL,
  cumulative TEXT NOT NULL,
  amount     TEXT NOT NULL,
  used       TEXT NOT NULL,
  deposit    TEXT NOT NULL,
  on_failure TEXT NOT NULL,
  charges_back ${integer} NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('undecided', 'open', 'kept', 'asked', 'returned')),
  is_counted ${integer} NOT NULL,
  created_at ${integer} NOT NULL
)${plain};
CREATE INDEX channel_charges_uncounted ON ${schema}channel_charges (channel_id, call_id) WHERE is_counted = 0;
CREATE INDEX channel_charges_ended ON ${schema}channel_charges (channel_id, call_id) WHERE ${IS_ENDED};
CREATE INDEX channel_charges_by_voucher ON ${schema}channel_charges (channel_id, cumulative);
CREATE INDEX channel_charges_old ON ${schema}channel_charges (created_at) WHERE is_counted = 1 AND state = 'kept';

-- Calls that were bought by vouchers that came with deposits.
CREATE TABLE ${schema}channel_deposits (
  channel_id TEXT NOT NULL,
  cumulative TEXT NOT NULL,
  call_id    ${integer} NOT NULL,
  PRIMARY KEY (channel_id, cumulative)
)${plain};
CREATE INDEX channel_deposits_by_call ON ${schema}channel_deposits (call_id);

-- Refunds that payers requested, by their requests. They are kept with their channels.
CREATE TABLE ${schema}channel_refunds (
  channel_id TEXT NOT NULL,
  request    TEXT NOT NULL,
  refund     TEXT NOT NULL,
  PRIMARY KEY (channel_id, request)
)${plain};

-- What operators decided about channels.
CREATE TABLE ${schema}channel_decisions (
  id         ${id},
  channel_id TEXT NOT NULL,
  action     TEXT NOT NULL,
  by_name    TEXT NOT NULL,
  note       TEXT NOT NULL,
  at         ${integer} NOT NULL
)${plain};
CREATE INDEX channel_decisions_by_channel ON ${schema}channel_decisions (channel_id, id);
`;
