import { expect, test } from "vitest";
import { unreachableText } from "../../src/node/unreachable.ts";

const URL_WITH_KEYS = "https://user:hunter2@rpc.example.com:8545/v2/hunter2?key=hunter2";
const caused = (cause: unknown) => new Error(`fetch of ${URL_WITH_KEYS} failed`, { cause });
const withCode = (code: string) => Object.assign(new Error("hunter2"), { code });

test.each([
  ["a code", withCode("ENOTFOUND"), ": ENOTFOUND"],
  ["a code in a cause", caused(caused(withCode("ECONNREFUSED"))), ": ECONNREFUSED"],
  ["a code for each address", caused(new AggregateError([withCode("ETIMEDOUT")])), ": ETIMEDOUT"],
  ["a status", caused(Object.assign(new Error("hunter2"), { status: 403 })), ": status 403"],
  ["a time-out", Object.assign(new Error("hunter2"), { name: "TimeoutError" }), ": no whole answer in time"],
  ["something else than JSON", caused(new SyntaxError("hunter2")), ": the answer is not JSON"],
  ["words alone", caused("hunter2"), ""],
])("An unreachable server is named by its host, with %s", (_, error, reason) => {
  expect(unreachableText(URL_WITH_KEYS, error)).toBe(`rpc.example.com:8545${reason}`);
});
