import { asHex } from "../../chain/rpc.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { type RawLog, readTransfer, readWord, wordAddress } from "../../x402/settlement/chain-logs.ts";
import {
  type ChainPayment,
  type MinedTransaction,
  toChainPayment,
} from "../../x402/settlement/chain-payment.ts";
import { readCalls } from "../../x402/settlement/traced-calls.ts";
import { EXACT_PROXY, findProxy, PROXIES, type X402Proxy } from "./proxies.ts";

/** Characters of a selector, `0x` included. */
const SELECTOR_LENGTH = 10;
const POSITIONS = Object.assign({}, ...PROXIES.map(({ settles }) => settles)) as X402Proxy["settles"];

/**
 * Reads the owner and the nonce of a permit from the call that settles it.
 * @returns undefined if the call is not one of the proxies'
 */
export function readPermit(input: string): { readonly payer: string; readonly nonce: string } | undefined {
  const at = POSITIONS[input.slice(0, SELECTOR_LENGTH)];
  if (at === undefined) return undefined;
  const [nonce, owner] = [readArgument(input, at.nonce), readArgument(input, at.owner)];
  if (nonce === undefined || owner === undefined) return undefined;
  return { payer: wordAddress(owner), nonce: BigInt(`0x${nonce}`).toString() };
}

/** Returns the account that settles, in a call to the proxy of a ceiling. The proxy accepts the call from no other account. */
export function senderOf({
  to,
  data,
}: {
  readonly to: string;
  readonly data: string;
}): `0x${string}` | undefined {
  const at = findProxy({ address: to })?.settles[data.slice(0, SELECTOR_LENGTH)]?.facilitator;
  const word = at === undefined ? undefined : readArgument(data, at);
  return word === undefined ? undefined : (wordAddress(word) as `0x${string}`);
}

function readArgument(input: string, index: number): string | undefined {
  return readWord(`0x${input.slice(SELECTOR_LENGTH)}`, index);
}

/**
 * Returns why payments of a proxy cannot be adopted, if the logs show a call of that proxy, which emits an event in
 * each call that settles.
 */
export function whyNotExact(logs: readonly RawLog[]): string | undefined {
  return logs.map(({ address }) => findProxy({ address })?.ceiling?.refusal).find((reason) => reason);
}

/** Pairs each call to the proxy of the scheme exact with the transfer that it made. */
export async function paymentsIn(mined: MinedTransaction, token: AcceptedToken): Promise<ChainPayment[]> {
  const { rpc, hash, logs } = mined;
  if (!logs.some(({ address }) => address.toLowerCase() === EXACT_PROXY.address)) return [];
  const [asset, payTo] = [token.asset.toLowerCase(), token.payTo.toLowerCase()];
  const sent = (await rpc.call("eth_getTransactionByHash", [hash])) as Record<string, unknown> | null;
  const isDirect = typeof sent?.to === "string" && sent.to.toLowerCase() === EXACT_PROXY.address;
  const calls = isDirect
    ? [{ input: asHex(sent.input), logs }]
    : await readCalls(rpc, hash, EXACT_PROXY.address);
  return calls.flatMap(({ input, logs }) => {
    const permit = readPermit(input);
    if (permit === undefined) return [];
    const moved = logs
      .filter(({ address }) => address.toLowerCase() === asset)
      .map(readTransfer)
      .find((transfer) => transfer?.from === permit.payer && transfer?.to === payTo);
    return moved === undefined ? [] : [toChainPayment(mined, token, { ...permit, value: moved.value })];
  });
}
