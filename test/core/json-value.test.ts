import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findInJson } from "../../src/core/json-value.ts";

const OTHER_CASE = "has a key that differs from it in letter case alone";

describe("A value in JSON", () => {
  it.each<[string, string[], unknown]>([
    ['{"n":1e400}', ["n"], { value: { kind: "number", text: "1e400" } }],
    ['{"n":-0}', ["n"], { value: { kind: "number", text: "-0" } }],
    [
      '{"a":{"b":[0,{"n":9007199254740993}]}}',
      ["a", "b", "1", "n"],
      { value: { kind: "number", text: "9007199254740993" } },
    ],
    ['{"\\u006e":3}', ["n"], { value: { kind: "number", text: "3" } }],
    ['{"n":1,"\\u006e":2}', ["n"], { problem: "is there more than once" }],
    ['{"n":1,"N":1000}', ["n"], { problem: OTHER_CASE }],
    ['{"N":1000}', ["n"], { problem: OTHER_CASE }],
    ['{"\u212a":1}', ["k"], { problem: OTHER_CASE }],
    ['{"n":1,"n":1}', ["n"], { problem: "is there more than once" }],
    ['{"a":{"n":1},"a":{"n":1}}', ["a", "n"], { problem: "is there more than once" }],
    ['{"x":1,"x":2,"n":3}', ["n"], { value: { kind: "number", text: "3" } }],
    ['{"x":{"n":1},"n":3}', ["n"], { value: { kind: "number", text: "3" } }],
    ['{"x":"}\\\\\\"","n" : "é\\n"}', ["n"], { value: { kind: "string", text: "é\n" } }],
    ['{"n":null}', ["n"], { value: { kind: "other" } }],
    ['{"n":true}', ["n"], { value: { kind: "other" } }],
    ['{"n":[1]}', ["n"], { value: { kind: "other" } }],
    ['{"__proto__":5}', ["__proto__"], { value: { kind: "number", text: "5" } }],
    ["{}", ["toString"], { value: undefined }],
    ["[1,2]", ["2"], { value: undefined }],
    ["[1,2]", ["01"], { value: undefined }],
    ["7", [], { value: { kind: "number", text: "7" } }],
    ["7", ["n"], { value: undefined }],
    ['\ufeff{"n":1}', ["n"], { problem: "is not JSON" }],
    ['{"n":1}x', ["n"], { problem: "is not JSON" }],
    ['{"n":NaN}', ["n"], { problem: "is not JSON" }],
    ["", [], { problem: "is not JSON" }],
  ])("Of %s at %j is %j", (text, pointer, found) => {
    expect(findInJson(text, pointer)).toEqual(found);
  });

  it("Is what JSON.parse has there, in every document without keys that are equal but for their case", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.nat(), fc.boolean(), (compact, chance, isSpaced) => {
        const document = JSON.parse(compact);
        const text = isSpaced ? JSON.stringify(document, null, 2) : JSON.stringify(document);
        for (const [pointer, value] of valuesOf(document, [], chance)) {
          const found = findInJson(text, pointer);
          if (!("value" in found)) throw new Error(found.problem);
          if (typeof value === "string") expect(found.value).toEqual({ kind: "string", text: value });
          else if (typeof value === "number")
            expect(found.value).toEqual({ kind: "number", text: JSON.stringify(value) });
          else expect(found.value).toEqual({ kind: "other" });
        }
      }),
    );
  });
});

function* valuesOf(value: unknown, path: string[], chance: number): Iterable<[string[], unknown]> {
  yield [path, value];
  if (typeof value !== "object" || value === null) return;
  const names = Object.keys(value).map((name) => name.toUpperCase().toLowerCase());
  if (new Set(names).size < names.length) return;
  for (const [key, inner] of Object.entries(value)) yield* valuesOf(inner, [...path, key], chance);
}
