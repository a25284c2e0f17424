import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { BodySchema, SchemaProblem } from "../../src/core/body-schema.ts";

const compile = (schema: unknown) => BodySchema.compile(JSON.stringify(schema));
const check = async (schema: unknown, body: string | Uint8Array) =>
  (await compile(schema)).check(Buffer.from(body));
/** Stops a process for 30 ms, 40 times. */
const STOPPER = `
  const wait = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  for (let i = 0; i < 40; i++) {
    process.kill(Number(process.argv[1]), "SIGSTOP");
    wait(30);
    process.kill(Number(process.argv[1]), "SIGCONT");
    wait(5);
  }`;

describe("A body", () => {
  it("Has no problem if it matches", async () => {
    expect(await check({ type: "object", required: ["text"] }, '{"text":1}')).toEqual([]);
  });

  it("Is refused with the path of every problem: of values, and of properties that are missing or too many", async () => {
    const schema = {
      type: "object",
      required: ["text", "a/b"],
      properties: { text: { type: "string" }, list: { items: { type: "integer" } } },
      additionalProperties: false,
    };
    expect(await check(schema, '{"text":1,"list":[1,"2"],"more":0}')).toEqual([
      { path: "/a~1b", message: "must have required property 'a/b'" },
      { path: "/more", message: "must NOT have additional properties" },
      { path: "/text", message: "must be string" },
      { path: "/list/1", message: "must be integer" },
    ]);
  });

  it.each([
    ...["1", "1.0", "-0.0", "10e-1", "1.5e1", "0.30000000000000004", "0.1e-1000", "9007199254740993"].map(
      (number) => [number, number === "0.1e-1000"] as const,
    ),
    ...["1.00000000000000000001", "-7.000000000000000000001e0", "9007199254740993.5", "1e-400"].map(
      (number) => [number, true] as const,
    ),
  ])("With the number %s is refused for its digits: %s", async (number, isRefused) => {
    const schema = { type: "array", items: { type: ["number", "string"] } };
    const body = `["1.00000000000000000001 \\" 1e-400", ${number}]`;
    const message = "has a number with more digits than can be read, close to an integer";
    expect(await check(schema, body)).toEqual(isRefused ? [{ path: "", message }] : []);
  });

  it.each([
    ["text", "hello"],
    ["nothing", ""],
    ["a byte order mark", Buffer.from([0xef, 0xbb, 0xbf, 0x31])],
    ["bytes that are not UTF-8", Buffer.from([0x22, 0xff, 0x22])],
  ])("Is refused if it is not JSON: %s", async (_, body) => {
    expect(await check(true, body)).toEqual([{ path: "", message: "is not JSON in UTF-8" }]);
  });

  it("Has no properties but its own", async () => {
    expect(await check({ required: ["toString"] }, "{}")).toMatchObject([{ path: "/toString" }]);
    const closed = { properties: { a: true }, additionalProperties: false };
    expect(await check(closed, '{"__proto__":1}')).toMatchObject([{ path: "/__proto__" }]);
  });

  it("Has unique items unless two are equal, in whatever order their properties come", async () => {
    const problem = [{ path: "/list", message: "must NOT have duplicate items" }];
    const schema = await compile({ properties: { list: { uniqueItems: true } } });
    const isUnique = (list: string) => schema.check(Buffer.from(`{"list":${list}}`));
    expect(isUnique('[1,"1",[1],["1"],{"a":1},"{\\"a\\":1}",null,"null",{"__proto__":1},{}]')).toEqual([]);
    expect(isUnique('[{"a":1,"b":[{"c":1,"d":2}]},{"b":[{"d":2,"c":1}],"a":1.0}]')).toEqual(problem);
    expect(isUnique("[1,2,1.0]")).toEqual(problem);
    expect(await check({ uniqueItems: false }, "[1,1]")).toEqual([]);
  });

  it("Is refused if a pattern takes too long, and the next one is checked as usual", async () => {
    const schema = await compile({ type: "string", pattern: "^(a+)+$" });
    const slow = JSON.stringify(`${"a".repeat(60)}!`);
    expect(schema.check(Buffer.from(slow))).toEqual([{ path: "", message: "takes too long to check" }]);
    expect(schema.check(Buffer.from('"aaa"'))).toEqual([]);
  });

  it("Is checked in CPU time, whatever other processes take", async () => {
    const schema = await compile({ type: "string", pattern: "^[ab]*$" });
    // The first check of a process takes longer.
    for (let i = 0; i < 100; i++) schema.check(Buffer.from('"ab"'));
    const stopper = spawn(process.execPath, ["-e", STOPPER, String(process.pid)]);
    const exited = once(stopper, "exit");
    let checked = 0;
    let givenUp = 0;
    while (stopper.exitCode === null) {
      for (let i = 0; i < 100; i++) {
        if (schema.checkWithin(20, Buffer.from('"ab"')) === undefined) givenUp++;
        else checked++;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await exited).toEqual([0, null]);
    expect(checked).toBeGreaterThan(100);
    // The process itself may take CPU time in the background, to collect garbage.
    expect(givenUp).toBeLessThan(5);
  });

  it("Is refused if a recursive schema follows it too deep", async () => {
    const schema = { type: "array", items: { $ref: "#" } };
    const depth = 400_000;
    const problems = await check(schema, "[".repeat(depth) + "]".repeat(depth));
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toMatch(/is nested too deeply|takes too long|is not JSON/);
  });

  it("Lists at most 20 problems, and only the first of a large body", async () => {
    const schema = { items: { type: "string" } };
    expect(await check(schema, JSON.stringify(Array(100).fill(1)))).toHaveLength(20);
    expect(await check(schema, JSON.stringify(Array(100_000).fill(1)))).toEqual([
      { path: "/0", message: "must be string" },
    ]);
  });
});

describe("A schema", () => {
  it.each([
    ["that is not JSON", "{", /is not JSON/],
    ["that is a list", "[]", /is neither an object nor a boolean/],
    [
      "with a type that there is not",
      '{"type":"text"}',
      /is invalid: \/type must be equal to one of the allowed values/,
    ],
    [
      "with a remote reference",
      '{"$ref":"https://a.example/b"}',
      /can't resolve reference https:\/\/a.example\/b/,
    ],
    ["with a pattern that is none", '{"pattern":"("}', /does not compile: .*regular expression/i],
    ["of another draft", '{"$schema":"http://json-schema.org/draft-07/schema#"}', /is of another dialect/],
    [
      "that is nested 5,000 deep",
      `${'{"items":'.repeat(5_000)}{}${"}".repeat(5_000)}`,
      /nested more than 200/,
    ],
    ["that answers with promises", '{"$async":true}', /has the keyword \$async/],
  ])("Cannot be one %s", async (_, text, reason) => {
    const compiled = BodySchema.compile(text);
    await expect(compiled).rejects.toThrow(SchemaProblem);
    await expect(compiled).rejects.toThrow(reason);
  });

  it("May have unknown keywords and formats, which refuse nothing", async () => {
    expect(await check({ format: "postcode", "x-hint": 1 }, "1")).toEqual([]);
  });
});
