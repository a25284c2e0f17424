import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { decimalText, parseDollars } from "../../core/amounts.ts";
import type { Clock } from "../../core/clock.ts";
import {
  type ListMovementsRequest,
  MovementGroup,
  MovementKind,
  type SumMovementsRequest,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { nameIn, numbersOf } from "../../operator/messages.ts";
import { invalid, pageSizeOf } from "../../operator/requests.ts";
import { DAY_MS, signedDecimalText } from "./portable/periods.ts";
import type {
  Books,
  Movement,
  MovementPlace,
  MovementSum,
  MovementGroup as SummedBy,
} from "./store/ledger.ts";

/** Decimals of prices, and of every EVM network's own coin. */
const NATIVE_DECIMALS = 18;

/** The API's number for each kind of movement. */
export const MOVEMENT_KINDS = numbersOf(MovementKind);

/**
 * Reads one page of the books.
 * @throws ConnectError INVALID_ARGUMENT for a malformed token
 */
export async function listMovements(request: ListMovementsRequest, books: Books) {
  const { since, until, pageToken } = request;
  const size = pageSizeOf(request);
  const first = { at: since === undefined ? 0 : timestampMs(since), id: 0 };
  const found = await books.listMovements({
    after: pageToken === "" ? first : readPlace(pageToken),
    until: until === undefined ? Number.MAX_SAFE_INTEGER : timestampMs(until),
    limit: size + 1,
  });
  const items = found.slice(0, size);
  const last = items.at(-1);
  return {
    movements: items.map(toMovement),
    nextPageToken: found.length > size && last !== undefined ? `${last.at}-${last.id}` : "",
  };
}

function readPlace(token: string): MovementPlace {
  const [, at, id] = /^([0-9]{1,15})-([1-9][0-9]{0,14})$/.exec(token) ?? [];
  if (at === undefined || id === undefined)
    throw invalid("page_token: expected the next_page_token of the previous page, or an empty string.");
  return { at: Number(at), id: Number(id) };
}

function toMovement(movement: Movement) {
  const { at, kind, network, token, amount, decimals, account = "", counterparty = "", sale } = movement;
  const { transaction = "", block = "" } = movement;
  const dollars = sale && parseDollars(sale.price);
  // The object is built without a spread, because V8 takes ten times as long to add the other fields to a spread
  // object.
  const shown = {
    time: timestampFromMs(at),
    kind: MOVEMENT_KINDS[kind] ?? MovementKind.UNSPECIFIED,
    network,
    token: token?.symbol ?? "native",
    asset: token?.asset ?? "",
    baseUnits: amount,
    amount: signedDecimalText(amount, decimals),
    account,
    counterparty,
    transaction,
    block,
    price: sale === undefined ? "" : decimalText(dollars?.amount ?? sale.price, NATIVE_DECIMALS),
    currency: sale === undefined ? "" : dollars === undefined ? "native" : "USD",
    rate: sale?.rate ?? "",
  };
  if (sale === undefined) return shown;
  const { callId, serviceId, jobIndex } = sale;
  return Object.assign(shown, { callId: BigInt(callId), serviceId, jobIndex });
}

const DEFAULT_DAYS = 30;
const MAX_DAYS = 3_660;

/** The API's number for each group of sums. */
export const MOVEMENT_GROUPS = {
  token: MovementGroup.TOKEN,
  network: MovementGroup.NETWORK,
  job: MovementGroup.JOB,
  day: MovementGroup.DAY,
} as const satisfies Record<SummedBy, MovementGroup>;

/**
 * Sums the books over whole days.
 * @throws ConnectError INVALID_ARGUMENT for a period that is empty or too long
 */
export async function sumMovements(request: SumMovementsRequest, books: Books, clock: Clock) {
  const by = request.by === 0 ? "token" : nameIn(MOVEMENT_GROUPS, request.by);
  if (by === undefined) throw invalid("by: expected a MovementGroup.");
  const to = Math.ceil((request.until === undefined ? clock() + 1 : timestampMs(request.until)) / DAY_MS);
  const from =
    request.since === undefined ? to - DEFAULT_DAYS : Math.floor(timestampMs(request.since) / DAY_MS);
  if (from >= to) throw invalid("since: expected a time before until.");
  if (to - from > MAX_DAYS) throw invalid(`since: expected at most ${MAX_DAYS} days before until.`);
  const sums = await books.sumMovements({ from, to, by });
  return {
    since: timestampFromMs(from * DAY_MS),
    until: timestampFromMs(to * DAY_MS),
    sums: sums.map(toSum),
  };
}

function toSum({ day, job, network, token, decimals, payments, ...amounts }: MovementSum) {
  const { sold, refunded, chargedBack, lost, fees, corrected, net } = amounts;
  return {
    ...{ ...job, network, decimals, payments, token: token?.symbol ?? "native", asset: token?.asset ?? "" },
    ...(day !== undefined && { day: timestampFromMs(day * DAY_MS) }),
    ...{ sold: String(sold), refunded: String(refunded), chargedBack: String(chargedBack) },
    ...{ lost: String(lost), fees: String(fees), corrected: String(corrected), net: String(net) },
  };
}
