import * as z from "zod";
import type { Checked, Complete } from "../../config/check-shape.ts";
import type { EntryKeys } from "../../config/entry-keys.ts";
import type { Place } from "../../config/mistakes.ts";
import { checkCredentials, checkHttps } from "../../config/rules/urls.ts";
import { address, jsonPointer, seconds, wholeSeconds } from "../../config/value-types.ts";
import { httpUrl } from "../../config/web-types.ts";
import type { TokenTable } from "../../config/x402.ts";

const live = {
  /** A value that is older is not used. */
  maxAgeMs: wholeSeconds(),
  /** Time between two requests; less than `maxAgeMs`. */
  refreshMs: seconds(0.001).optional(),
};

/** A Chainlink price feed, or another contract with the AggregatorV3Interface. */
const chainlink = z.object({
  /** May hold credentials. */
  rpcUrl: httpUrl(),
  feed: address(),
  ...live,
});

/** JSON over HTTP. */
const http = z.object({
  /** May hold credentials. */
  url: httpUrl(),
  /** JSON pointer (RFC 6901) to the rate. */
  pointer: jsonPointer(),
  ...live,
});

const rateSource = z.object({ chainlink: chainlink.optional(), http: http.optional() });

type SourceTable = Checked<z.output<typeof rateSource>>;
type ChainlinkSource = { readonly kind: "chainlink" } & Filled<typeof chainlink>;
type HttpSource = { readonly kind: "http" } & Filled<typeof http>;
type Filled<Schema extends z.ZodType> = Complete<Required<z.output<Schema>>>;
/** Source of a token's rate: whole tokens for one native unit. */
export type RateSource = ChainlinkSource | HttpSource;

/** `rate_source` of `[[x402.accepted_tokens]]` */
export const rateKeys: EntryKeys<"x402.acceptedTokens"> = {
  list: "x402.acceptedTokens",
  keys: { rateSource: rateSource.optional() },
  alternative: "a rate_source",
  claim(token: TokenTable & { readonly rateSource?: SourceTable }, place) {
    const at = place.at("rate_source");
    if (token.rateSource === undefined && !at.isReported) return undefined;
    const { chainlink, http } = token.rateSource ?? {};
    const filled = { chainlink: fillRefresh(chainlink), http: fillRefresh(http) };
    return {
      keys: { rateSource: filled },
      check() {
        if (token.rateSource === undefined) return;
        if (token.ratePerNativeUnit !== undefined) {
          place.at("rate_per_native_unit").report("is set beside rate_source; expected only one of them");
        }
        checkSource(token.rateSource, at);
      },
      complete: (): RateSource =>
        filled.chainlink === undefined
          ? ({ kind: "http", ...filled.http } as HttpSource)
          : ({ kind: "chainlink", ...filled.chainlink } as ChainlinkSource),
    };
  },
};

const DEFAULT_REFRESH_MS = 5_000;

function fillRefresh<
  Live extends { readonly maxAgeMs?: number | undefined; readonly refreshMs?: number | undefined },
>(table: Live | undefined): Live | undefined {
  if (table?.maxAgeMs === undefined) return table;
  return { ...table, refreshMs: table.refreshMs ?? Math.min(DEFAULT_REFRESH_MS, table.maxAgeMs / 4) };
}

function checkSource({ chainlink, http }: SourceTable, place: Place): void {
  if (chainlink !== undefined && http !== undefined) {
    place.report("names both chainlink and http; expected only one of them");
  } else if (chainlink === undefined && http === undefined) {
    // A table that is there but wrong is reported already.
    const isWrong = ["chainlink", "http"].some((kind) => place.at(kind).isReported);
    if (!isWrong) place.report("names no source; expected chainlink or http");
  }
  checkCredentials(place.at("chainlink", "rpc_url"), chainlink?.rpcUrl);
  // Anyone who can change the answer on its way sets the prices.
  checkHttps(place.at("http", "url"), http?.url);
  for (const [kind, table] of Object.entries({ chainlink, http })) {
    const { maxAgeMs, refreshMs } = table ?? {};
    if (maxAgeMs === undefined || refreshMs === undefined || refreshMs < maxAgeMs) continue;
    place
      .at(kind, "refresh_secs")
      .report(
        `lets each value expire before the next request; expected less than max_age_secs, which is ${maxAgeMs / 1000}`,
      );
  }
}
