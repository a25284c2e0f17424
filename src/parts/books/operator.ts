import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { decimalText, parseDollars } from "../../core/amounts.ts";
import { type ListMovementsRequest, MovementKind } from "../../gen/jobgate/v1/operator_pb.ts";
import { numbersOf } from "../../operator/messages.ts";
import { invalid, pageSizeOf } from "../../operator/requests.ts";
import type { Books, Movement, MovementPlace } from "./store/ledger.ts";

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
  return {
    ...{ network, transaction, block, account, counterparty },
    time: timestampFromMs(at),
    kind: MOVEMENT_KINDS[kind] ?? MovementKind.UNSPECIFIED,
    token: token?.symbol ?? "native",
    asset: token?.asset ?? "",
    baseUnits: amount,
    amount: signedDecimalText(amount, decimals),
    ...(sale === undefined ? {} : toSale(sale)),
  };
}

function toSale({ callId, serviceId, jobIndex, price, rate = "" }: NonNullable<Movement["sale"]>) {
  const dollars = parseDollars(price);
  return {
    ...{ callId: BigInt(callId), serviceId, jobIndex, rate },
    price: decimalText(dollars?.amount ?? price, NATIVE_DECIMALS),
    currency: dollars === undefined ? "native" : "USD",
  };
}

function signedDecimalText(units: string, decimals: number): string {
  return units.startsWith("-") ? `-${decimalText(units.slice(1), decimals)}` : decimalText(units, decimals);
}
