import type { Checked } from "../check-shape.ts";
import type { KeyPath } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

type X402Table = NonNullable<Checked<CheckedFile>["x402"]>;
type TokenTable = NonNullable<NonNullable<X402Table["accepted_tokens"]>[number]>;
type SourceTable = NonNullable<TokenTable["rate_source"]>;
type LiveTable = NonNullable<SourceTable["chainlink"]> | NonNullable<SourceTable["http"]>;

/** That a token has one rate, fixed or live, and that a live one can be trusted and kept current. */
export function checkRate(token: TokenTable, x402: X402Table, path: KeyPath, mistakes: MistakeList): void {
  const fixedPath = [...path, "rate_per_native_unit"];
  const sourcePath = [...path, "rate_source"];
  if (token.rate_source !== undefined) {
    if (token.rate_per_native_unit !== undefined) {
      mistakes.report(fixedPath, "is set beside rate_source; expected only one of them");
    }
    checkSource(token.rate_source, sourcePath, mistakes);
  } else if (
    token.rate_per_native_unit === undefined &&
    x402.rate_per_native_unit === undefined &&
    !mistakes.isReported(sourcePath)
  ) {
    mistakes.reportMissing(
      fixedPath,
      "is missing; expected a rate here or as x402.rate_per_native_unit, or a rate_source",
    );
  }
}

function checkSource({ chainlink, http }: SourceTable, path: KeyPath, mistakes: MistakeList): void {
  if (chainlink !== undefined && http !== undefined) {
    mistakes.report(path, "names both chainlink and http; expected only one of them");
  } else if (chainlink === undefined && http === undefined) {
    // A kind that is there but wrong is reported already.
    const isWrong = ["chainlink", "http"].some((kind) => mistakes.isReported([...path, kind]));
    if (!isWrong) mistakes.report(path, "names no source; expected chainlink or http");
  }
  if (chainlink !== undefined) {
    checkCredentials([...path, "chainlink", "rpc_url"], chainlink.rpc_url, mistakes);
    checkTimes(chainlink, [...path, "chainlink"], mistakes);
  }
  if (http !== undefined) {
    // Whoever can change the answer on its way sets the prices.
    checkHttps([...path, "http", "url"], http.url, mistakes);
    checkTimes(http, [...path, "http"], mistakes);
  }
}

function checkTimes(live: LiveTable, path: KeyPath, mistakes: MistakeList): void {
  const { max_age_secs: maxAgeSecs, refresh_secs: refreshMs } = live;
  if (maxAgeSecs === undefined || refreshMs === undefined || refreshMs < maxAgeSecs * 1000) return;
  mistakes.report(
    [...path, "refresh_secs"],
    `lets each value run out before the next is asked for; expected less than max_age_secs, which is ${maxAgeSecs}`,
  );
}
