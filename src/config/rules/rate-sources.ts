import type { KeyPath } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import type { TokenTable, X402Table } from "../x402.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

/** Checks that a token has exactly one rate, and that a live rate is safe and stays current. */
export function checkRate(token: TokenTable, x402: X402Table, path: KeyPath, mistakes: MistakeList): void {
  const fixedPath = [...path, "rate_per_native_unit"];
  const sourcePath = [...path, "rate_source"];
  if (token.rateSource !== undefined) {
    if (token.ratePerNativeUnit !== undefined) {
      mistakes.report(fixedPath, "is set beside rate_source; expected only one of them");
    }
    checkSource(token.rateSource, sourcePath, mistakes);
  } else if (
    token.ratePerNativeUnit === undefined &&
    x402.ratePerNativeUnit === undefined &&
    !mistakes.isReported(sourcePath)
  ) {
    mistakes.reportMissing(
      fixedPath,
      "is missing; expected a rate here or as x402.rate_per_native_unit, or a rate_source",
    );
  }
}

type SourceTable = NonNullable<TokenTable["rateSource"]>;

function checkSource({ chainlink, http }: SourceTable, path: KeyPath, mistakes: MistakeList): void {
  if (chainlink !== undefined && http !== undefined) {
    mistakes.report(path, "names both chainlink and http; expected only one of them");
  } else if (chainlink === undefined && http === undefined) {
    // A table that is there but wrong is reported already.
    const isWrong = ["chainlink", "http"].some((kind) => mistakes.isReported([...path, kind]));
    if (!isWrong) mistakes.report(path, "names no source; expected chainlink or http");
  }
  checkCredentials([...path, "chainlink", "rpc_url"], chainlink?.rpcUrl, mistakes);
  // Anyone who can change the answer on its way sets the prices.
  checkHttps([...path, "http", "url"], http?.url, mistakes);
  for (const [kind, live] of Object.entries({ chainlink, http })) {
    const { maxAgeMs, refreshMs } = live ?? {};
    if (maxAgeMs === undefined || refreshMs === undefined || refreshMs < maxAgeMs) continue;
    mistakes.report(
      [...path, kind, "refresh_secs"],
      `lets each value expire before the next request; expected less than max_age_secs, which is ${maxAgeMs / 1000}`,
    );
  }
}
