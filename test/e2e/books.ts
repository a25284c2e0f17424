import { expect } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import type { Movement } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { accounts } from "../helpers/accounts.ts";
import type { PaidGateway } from "./paid-gateway.ts";
import type { PaidParts } from "./paid-parts.ts";
import type { RefundAccount } from "./refund-account.ts";

/** Reads all movements of a running gateway. */
export async function readBooks({ jobgate }: Pick<PaidGateway, "jobgate">): Promise<Movement[]> {
  const client = createOperatorClient({ address: { url: jobgate.operatorUrl } });
  const movements: Movement[] = [];
  let pageToken = "";
  do {
    const page = await client.listMovements({ pageSize: 500, pageToken });
    movements.push(...page.movements);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return movements;
}

/** Returns the change of an account's balance by the books: of a token, or without one of the network's own coin. */
export function sumOf(
  books: readonly Movement[],
  { account, asset = "" }: { readonly account: string; readonly asset?: string },
): bigint {
  const own = books.filter(
    (movement) => movement.account === account.toLowerCase() && movement.asset === asset.toLowerCase(),
  );
  return own.reduce((sum, { baseUnits }) => sum + BigInt(baseUnits), 0n);
}

/**
 * Starts to watch. The returned function checks that the books have what the chain moved since: what was received, and what
 * the refund account gave back.
 */
export async function watchBooks(options: {
  readonly parts: PaidParts;
  readonly gateway: PaidGateway;
  readonly account: RefundAccount | undefined;
}): Promise<() => Promise<void>> {
  const { parts, gateway, account } = options;
  const asset = parts.usdc.address;
  const payTo = accounts.payTo.address;
  const read = async () => {
    const books = await readBooks(gateway);
    const transfers = (await account?.transfers()) ?? [];
    return {
      booked: sumOf(books, { account: payTo, asset }),
      bookedBack: account === undefined ? 0n : -sumOf(books, { account: account.address, asset }),
      moved: await parts.usdc.balanceOf(payTo),
      movedBack: transfers.reduce((sum, { value }) => sum + value, 0n),
    };
  };
  const before = await read();
  return async () => {
    const now = await read();
    expect({ received: now.booked - before.booked, refunded: now.bookedBack - before.bookedBack }).toEqual({
      received: now.moved - before.moved,
      refunded: now.movedBack - before.movedBack,
    });
  };
}
