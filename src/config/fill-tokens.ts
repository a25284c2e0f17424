import { closestWord } from "../core/closest-word.ts";
import { chargesOf } from "./jobs.ts";
import { fileKey, type MistakeList, type Place } from "./mistakes.ts";
import type { ConfigTables } from "./schema.ts";
import { networkName, TOKEN_PRESETS, type TokenPreset } from "./token-presets.ts";
import type { TokenTable, X402Table } from "./x402.ts";

/**
 * Fills each accepted token from its preset, and its transfer method as the SDK does. Reports unknown presets, values
 * that differ from the preset, and missing values.
 */
export function fillTokens(tables: ConfigTables, mistakes: MistakeList): ConfigTables {
  const { x402 } = tables;
  if (x402?.acceptedTokens === undefined) return tables;
  const isSoldByUse = tables.jobs?.some((job) => job && chargesOf(job).includes("used")) ?? false;
  const placeOf = (i: number) => mistakes.at("x402", "accepted_tokens", i);
  const acceptedTokens = x402.acceptedTokens.map((token, i) => token && fillToken(token, placeOf(i)));
  for (const [i, token] of acceptedTokens.entries()) {
    const isChosen = x402.acceptedTokens[i]?.transferMethod === "permit2";
    // Only Permit2 can charge less than the payer signed.
    if (token && isChosen && !isSoldByUse)
      warnOfChosenPermit2(token, acceptedTokens, placeOf(i).at("transfer_method"));
  }
  return { ...tables, x402: { ...x402, acceptedTokens } satisfies X402Table };
}

function fillToken(token: TokenTable, place: Place): TokenTable {
  const preset = findPreset(token, place);
  if (preset === undefined) {
    const isUnknown = token.token !== undefined || place.at("token").isReported;
    if (isUnknown) return token;
    for (const key of ["asset", "symbol", "decimals"] as const) {
      if (token[key] !== undefined) continue;
      place.at(key).reportMissing('is missing; expected it, or a preset such as token = "USDC"');
    }
    return withMethod(token, place);
  }
  const { network: _, asset, decimals, ...filled } = preset;
  for (const [key, value] of Object.entries({ asset, decimals })) {
    const own = token[key as "asset" | "decimals"];
    if (own === undefined || own === value) continue;
    place
      .at(fileKey(key))
      .report(
        `is ${own}, which differs from that of token ${quoted(preset.symbol)}, ${value}; expected it left out, or no token`,
      );
  }
  return withMethod({ currency: "USD", ...filled, ...token, asset, decimals }, place);
}

function findPreset({ token, network }: TokenTable, place: Place): TokenPreset | undefined {
  if (token === undefined || network === undefined) return undefined;
  const known = TOKEN_PRESETS.filter((preset) => preset.network === network);
  const preset = known.find(({ symbol }) => symbol === token);
  if (preset !== undefined) return preset;
  const symbols = known.map(({ symbol }) => symbol);
  const expected =
    known.length > 0
      ? `${symbols.map(quoted).join(" or ")}, or the keys of the token itself`
      : `the keys of the token itself, or a network that has a preset: ${TOKEN_PRESETS.map((other) => `${quoted(other.symbol)} on ${networkName(other.network)}`).join(", ")}`;
  const suggestion = closestWord(token, symbols);
  const hint = suggestion === undefined ? "" : `; did you mean ${quoted(suggestion)}?`;
  const found = `is ${quoted(token)}, which is not a token that is known on ${networkName(network)}`;
  place.at("token").report(`${found}; expected ${expected}${hint}`, suggestion);
  return undefined;
}

/**
 * Fills the transfer method, and checks that the EIP-712 domain is there if it is needed, and never half of it. With
 * Permit2 the domain serves gas sponsoring (EIP-2612).
 */
function withMethod(token: TokenTable, place: Place): TokenTable {
  const { eip3009Name: name, eip3009Version: version } = token;
  const transferMethod = token.transferMethod ?? "permit2";
  const isNeeded = transferMethod === "eip3009" || name !== undefined || version !== undefined;
  if (isNeeded && name === undefined) {
    place.at("eip3009_name").reportMissing("is missing; expected the name in the token's EIP-712 domain");
  }
  if (isNeeded && version === undefined) {
    place
      .at("eip3009_version")
      .reportMissing("is missing; expected the version in the token's EIP-712 domain");
  }
  if (token.transferMethod === undefined) warnOfPermit2(token, place.at("transfer_method"));
  return { ...token, transferMethod };
}

/** Warns that a token without a transfer method is paid by Permit2, which its payers must have approved. */
function warnOfPermit2(token: TokenTable, place: Place): void {
  const known = findWithEip3009(token);
  const expected =
    known === undefined
      ? '"eip3009" if the token has EIP-3009, or "permit2"'
      : `"eip3009", which this token has, or token = ${quoted(known.symbol)} in place of asset`;
  place.warn(
    `is missing, so the token is paid by Permit2, which its payers must have approved; expected ${expected}`,
  );
}

/** Warns of a token that has EIP-3009 and can be paid by Permit2 alone. */
function warnOfChosenPermit2(
  token: TokenTable,
  all: readonly (TokenTable | undefined)[],
  place: Place,
): void {
  if (findWithEip3009(token) === undefined) return;
  const isPaidByBoth = all.some((other) => other?.transferMethod === "eip3009" && isSameToken(other, token));
  if (isPaidByBoth) return;
  place.warn(
    'is "permit2", which the token\'s payers must have approved, although the token has EIP-3009; expected "eip3009", or the token listed again with it',
  );
}

function findWithEip3009(token: TokenTable): TokenPreset | undefined {
  return TOKEN_PRESETS.find((preset) => preset.transferMethod === "eip3009" && isSameToken(preset, token));
}

function isSameToken(one: TokenTable | TokenPreset, other: TokenTable): boolean {
  return one.network === other.network && one.asset?.toLowerCase() === other.asset?.toLowerCase();
}

function quoted(symbol: string): string {
  return JSON.stringify(symbol);
}
