import { expect, test } from "vitest";
import { loadConfigWith } from "../../src/config/load-config.ts";
import type { TokenMethod } from "../../src/config/token-method.ts";
import { TOKEN, X402 } from "./config-folder.ts";
import { without } from "./mistake-cases.ts";

const PRESET = `[[x402.accepted_tokens]]
token = "MegaUSD"
network = "megaeth"
pay_to = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
`;
const METERED = '[[jobs]]\njob_index = 0\nprice = "$0.01"\ncharge = "used"\n';
const other: TokenMethod = {
  ...{ name: "other", title: "Other", chargesPart: true, paysAny: true },
  check({ symbol }, { place, namedBy, isSoldInPart }) {
    place.at("transfer_method").warn(`${symbol} ${namedBy} ${isSoldInPart}`);
  },
};

/** Loads a file in a build with these methods beside EIP-3009. @returns its mistakes */
async function mistakesOf(tokens: string, methods: readonly TokenMethod[] = []) {
  const toml = `service_id = 1\n${X402}${tokens}`;
  const result = await loadConfigWith(
    { tables: [], entries: [], methods, charges: ["used"], paths: [], abilities: new Set() },
    { path: "jobgate.toml", toml, env: {} },
  );
  if (!result.ok) return result.mistakes.map(({ keyPath, message }) => `${keyPath} ${message}`);
  const [token] = result.config.x402?.acceptedTokens ?? [];
  return [token?.transferMethod, ...result.warnings.map(({ message }) => message)];
}

test("A method that no part of the build has is refused, with the methods of the build", async () => {
  const token = TOKEN.replace('"eip3009"', '"other"');
  expect(await mistakesOf(token)).toContain(
    'x402.accepted_tokens[0].transfer_method is "other"; expected "eip3009" (the transfer methods of this build)',
  );
  expect(await mistakesOf(token, [other])).toEqual(["other", "USDC entry false"]);
});

test("A preset without EIP-3009 is paid by a method that pays any token, or refused", async () => {
  expect(await mistakesOf(PRESET)).toContain(
    'x402.accepted_tokens[0].token is "MegaUSD", which has no EIP-3009, and this build has no other transfer method; expected a token with EIP-3009',
  );
  expect(await mistakesOf(PRESET, [other])).toEqual(["other", "MegaUSD preset false"]);
});

test("A token whose entry names no method is paid by a method that pays any token, or by EIP-3009", async () => {
  const token = without(TOKEN, "transfer_method");
  expect(await mistakesOf(token)).toEqual(["eip3009"]);
  expect(await mistakesOf(token, [other])).toEqual(["other", "USDC undefined false"]);
});

test("A token needs its EIP-712 domain for EIP-3009, and not for another method", async () => {
  const token = without(without(TOKEN, "eip3009_name"), "eip3009_version");
  expect(await mistakesOf(token)).toEqual([
    "x402.accepted_tokens[0].eip3009_name is missing; expected the name in the token's EIP-712 domain",
    "x402.accepted_tokens[0].eip3009_version is missing; expected the version in the token's EIP-712 domain",
  ]);
  expect(await mistakesOf(token.replace('"eip3009"', '"other"'), [other])).toEqual([
    "other",
    "USDC entry false",
  ]);
});

test("A job charged in part needs a token whose method can charge a part", async () => {
  expect(await mistakesOf(`${TOKEN}${METERED}`)).toContain(
    'jobs[0].charge is "used", which no transfer method of this build pays; expected "before" or "after"',
  );
  expect(await mistakesOf(`${TOKEN}${METERED}`, [other])).toContain(
    'jobs[0].charge is "used", which only Other pays; expected an accepted token with transfer_method = "other"',
  );
  const paid = `${TOKEN.replace('"eip3009"', '"other"')}currency = "USD"\nrpc_url = "https://base.example.com"\n`;
  expect(await mistakesOf(`${paid}${METERED}`, [other])).toContain("USDC entry true");
});
