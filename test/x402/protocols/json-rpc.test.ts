import { stringify } from "lossless-json";
import { expect, test } from "vitest";
import { parseMessage, RPC } from "../../../src/x402/protocols/json-rpc.ts";

const parse = (params: string) =>
  parseMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`));

test("The parameters of a message keep all digits of their numbers", () => {
  const params = '{"a":12345678901234567890,"b":5.0000000000000000001,"c":[1e400,-0.1],"__proto__":7}';
  const message = parse(params);
  expect(stringify(message?.exactParams)).toBe(params);
  expect(message?.params.a).toBe(12_345_678_901_234_567_000);
  expect(parse('{"n":5.0,"big":9007199254740991}')?.exactParams).toEqual({
    n: 5,
    big: 9_007_199_254_740_991,
  });
});

test.each([
  ["a key twice", '{"arguments":{"n":5,"n":50}}', 'The key "n" is there twice.'],
  ["half of a surrogate pair", '{"arguments":{"city":"\\ud800"}}', /half of a surrogate pair/],
  [
    "such a half before another character",
    '{"arguments":{"city":"\\\\\\uDC00x"}}',
    /half of a surrogate pair/,
  ],
])("A message with %s is refused", (_, params, message) => {
  expect(() => parse(params)).toThrow(expect.objectContaining({ code: RPC.invalidRequest }));
  expect(() => parse(params)).toThrow(message);
});

test("Whole surrogate pairs, and texts that look like halves, are taken", () => {
  expect(parse('{"a":"\\ud83d\\ude00","b":"\\\\ud800"}')?.params).toEqual({ a: "😀", b: "\\ud800" });
});
