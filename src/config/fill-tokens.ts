import { closestWord } from "../core/closest-word.ts";
import { isPartial } from "../core/payment.ts";
import { chargesOf } from "./jobs.ts";
import { fileKey, type MistakeList, type Place } from "./mistakes.ts";
import type { ConfigTables } from "./schema.ts";
import type { TokenContext, TokenMethod } from "./token-method.ts";
import { networkName, TOKEN_PRESETS, type TokenPreset } from "./token-presets.ts";
import type { TokenTable, X402Table } from "./x402.ts";

/**
 * Fills each accepted token from its preset. Fills the token's transfer method as the SDK does. Reports unknown
 * presets, values that differ from the preset, missing values, and mistakes that the method finds.
 */
export function fillTokens(tables: ConfigTables, mistakes: MistakeList): ConfigTables {
  const { x402, methods } = tables;
  if (x402?.acceptedTokens === undefined) return tables;
  const isSoldInPart = tables.jobs?.some((job) => job && chargesOf(job).some(isPartial)) ?? false;
  const placeOf = (i: number) => mistakes.at("x402", "accepted_tokens", i);
  const filled = x402.acceptedTokens.map((token, i) => token && fillToken(token, methods, placeOf(i)));
  const tokens = filled.map((one) => one?.token);
  for (const [i, one] of filled.entries()) {
    if (one === undefined) continue;
    const { token, namedBy } = one;
    const method = methods.find(({ name }) => name === token.transferMethod);
    method?.check?.(token, { place: placeOf(i), namedBy, tokens, isSoldInPart });
  }
  return { ...tables, x402: { ...x402, acceptedTokens: tokens } satisfies X402Table };
}

/** A filled token, and the source of its method. */
interface Filled extends Pick<TokenContext, "namedBy"> {
  readonly token: TokenTable;
}

function fillToken(token: TokenTable, methods: ConfigTables["methods"], place: Place): Filled {
  checkNetwork(token, methods, place);
  const preset = findPreset(token, methods, place);
  const ofNetwork = methods.find(({ networks }) => token.network && networks?.has(token.network));
  if (preset === undefined) {
    const isUnknown = token.token !== undefined || place.at("token").isReported;
    if (isUnknown) return { token, namedBy: undefined };
    for (const key of ["asset", "symbol", "decimals"] as const) {
      if (token[key] !== undefined) continue;
      place.at(key).reportMissing('is missing; expected it, or a preset such as token = "USDC"');
    }
    return withMethod(
      token,
      { methods, otherwise: ofNetwork ?? anyMethod(methods) ?? ownMethod(methods), source: undefined },
      place,
    );
  }
  const { network: _, asset, decimals, hasEip3009, ...filled } = preset;
  for (const [key, value] of Object.entries({ asset, decimals })) {
    const own = token[key as "asset" | "decimals"];
    if (own === undefined || own === value) continue;
    place
      .at(fileKey(key))
      .report(
        `is ${own}, which differs from that of token ${quoted(preset.symbol)}, ${value}; expected it left out, or no token`,
      );
  }
  const otherwise = ofNetwork ?? (hasEip3009 ? ownMethod(methods) : anyMethod(methods));
  if (otherwise === undefined && token.transferMethod === undefined) {
    place
      .at("token")
      .report(
        `is ${quoted(preset.symbol)}, which has no EIP-3009, and this build has no other transfer method; expected a token with EIP-3009`,
      );
  }
  return withMethod(
    { currency: "USD", ...filled, ...token, asset, decimals },
    { methods, otherwise, source: "preset" },
    place,
  );
}

/** Returns the method of tokens that check no signatures themselves; undefined if this build has no such method. */
function anyMethod(methods: ConfigTables["methods"]): TokenMethod | undefined {
  return methods.find(({ paysAny }) => paysAny);
}

/** Returns the method of tokens that check signatures themselves. */
function ownMethod(methods: ConfigTables["methods"]): TokenMethod | undefined {
  return methods.find(({ isOfToken }) => isOfToken);
}

/** Reports a transfer method or an address that the network of a token does not have. */
function checkNetwork(token: TokenTable, methods: ConfigTables["methods"], place: Place): void {
  const { network, transferMethod } = token;
  if (network === undefined) return;
  const ofNetwork = methods.find(({ networks }) => networks?.has(network));
  const kind = ofNetwork?.networks;
  for (const key of ["asset", "payTo"] as const) {
    const address = token[key];
    if (address === undefined || (kind?.isAddress(address) ?? address.startsWith("0x"))) continue;
    const expected = kind?.address ?? "an address: 0x and 40 hex digits";
    place.at(fileKey(key)).report(`is ${address}, which is no address on ${network}; expected ${expected}`);
  }
  const method = methods.find(({ name }) => name === transferMethod);
  if (method === undefined || method.networks === kind) return;
  place
    .at("transfer_method")
    .report(
      `is ${quoted(method.name)}, which does not pay on ${network}; expected it left out${ofNetwork ? "" : ", or another"}`,
    );
}

function findPreset(
  { token, network }: TokenTable,
  methods: ConfigTables["methods"],
  place: Place,
): TokenPreset | undefined {
  if (token === undefined || network === undefined) return undefined;
  const presets = [...TOKEN_PRESETS, ...methods.flatMap((method) => method.presets ?? [])];
  const kinds = methods.flatMap((method) => method.networks ?? []);
  const known = presets.filter((preset) => preset.network === network);
  const preset = known.find(({ symbol }) => symbol === token);
  if (preset !== undefined) return preset;
  const symbols = known.map(({ symbol }) => symbol);
  const expected =
    known.length > 0
      ? `${symbols.map(quoted).join(" or ")}, or the keys of the token itself`
      : `the keys of the token itself, or a network that has a preset: ${presets.map((other) => `${quoted(other.symbol)} on ${networkName(other.network, kinds)}`).join(", ")}`;
  const suggestion = closestWord(token, symbols);
  const hint = suggestion === undefined ? "" : `; did you mean ${quoted(suggestion)}?`;
  const found = `is ${quoted(token)}, which is not a token that is known on ${networkName(network, kinds)}`;
  place.at("token").report(`${found}; expected ${expected}${hint}`, suggestion);
  return undefined;
}

/**
 * Fills the transfer method. Checks that the EIP-712 domain is present if the method needs it, and that it is complete. A
 * method that does not need the domain uses it for gas sponsoring (EIP-2612).
 * @param from `otherwise` is the method of an entry that names no method, and `source` says where that method comes from
 */
function withMethod(
  token: TokenTable,
  from: {
    readonly methods: ConfigTables["methods"];
    readonly otherwise: TokenMethod | undefined;
    readonly source: TokenContext["namedBy"];
  },
  place: Place,
): Filled {
  const { methods, otherwise, source } = from;
  const { eip3009Name: name, eip3009Version: version, transferMethod = otherwise?.name } = token;
  const method = methods.find((one) => one.name === transferMethod);
  const isNeeded = method?.isOfToken === true || name !== undefined || version !== undefined;
  if (isNeeded && name === undefined) {
    place.at("eip3009_name").reportMissing("is missing; expected the name in the token's EIP-712 domain");
  }
  if (isNeeded && version === undefined) {
    place
      .at("eip3009_version")
      .reportMissing("is missing; expected the version in the token's EIP-712 domain");
  }
  checkKeys(token, { methods, method }, place);
  const namedBy = token.transferMethod === undefined ? source : "entry";
  return { token: { ...method?.keys?.defaults, ...token, transferMethod }, namedBy };
}

/** Reports keys of transfer methods that do not apply to the token. */
function checkKeys(
  token: TokenTable,
  {
    methods,
    method,
  }: { readonly methods: ConfigTables["methods"]; readonly method: TokenMethod | undefined },
  place: Place,
): void {
  if (method === undefined) return;
  for (const { title, keys } of methods) {
    for (const key of Object.keys(keys?.shape ?? {})) {
      if ((token as Readonly<Record<string, unknown>>)[key] === undefined || method.keys?.shape[key])
        continue;
      place
        .at(fileKey(key))
        .report(
          `is set for a token that is paid by ${method.title}; expected it left out, or a token paid by ${title}`,
        );
    }
  }
}

function quoted(symbol: string): string {
  return JSON.stringify(symbol);
}
