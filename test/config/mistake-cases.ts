import { expect, test } from "vitest";
import { mistakesOf, TOKEN, X402 } from "./config-folder.ts";

/** File with a mistake on the line that ends in `#!`. */
export interface MistakeCase {
  readonly promise: string;
  readonly toml: string;
  readonly keyPath: string;
  readonly message: RegExp;
  readonly suggestion?: string;
}

export const POLICY = `[[x402.job_policies]]
service_id = 1
job_index = 0
invocation_mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "http://127.0.0.1:8545"
chain_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
`;
export const ENDPOINT = `[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
`;
export const without = (toml: string, key: string) => toml.replace(new RegExp(`^${key} = .*\n`, "m"), "");
const swap = (toml: string, key: string, value: string) =>
  toml.replace(new RegExp(`^${key} = .*$`, "m"), `${key} = ${value} #!`);
export const header = (toml: string, name: string) => toml.replace(name, `${name} #!`);
export const x402 = (key: string, value: string) => ({
  toml: `${X402}${key} = ${value} #!\n${TOKEN}`,
  keyPath: `x402.${key}`,
});
export const token = (key: string, value: string) => ({
  toml: `${X402}${swap(TOKEN, key, value)}`,
  keyPath: `x402.accepted_tokens[0].${key}`,
});
export const policy = (key: string, value: string) => ({
  toml: `${X402}${TOKEN}${swap(POLICY, key, value)}`,
  keyPath: `x402.job_policies[0].${key}`,
});
export const hook = (path: string) => ({
  toml: `[webhooks]\n[[webhooks.endpoints]]\njob_id = 1\npath = ${JSON.stringify(path)} #!\n`,
  keyPath: "webhooks.endpoints[0].path",
});

/** Tests that the mistake of each file is found at its line and key path, and that no message has a secret. */
export function testMistakes(cases: readonly MistakeCase[]): void {
  test.each(cases)("$promise", async ({ toml, keyPath, message, suggestion }) => {
    const line = toml.split("\n").findIndex((text) => text.endsWith("#!")) + 1;
    const found = await mistakesOf(toml, { env: { EMPTY: "" } });
    const place = `jobgate.toml${line === 0 ? "" : `:${line}`} ${keyPath}`;
    const mistake = found.find((one) => one.place === place);
    expect(found.map((one) => one.place)).toContain(place);
    expect(mistake?.message).toMatch(message);
    expect(mistake?.suggestion).toBe(suggestion);
    expect(JSON.stringify(found)).not.toContain("hunter2");
  });
}
