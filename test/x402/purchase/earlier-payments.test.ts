import { createHash } from "node:crypto";
import { describe, expect, it, test } from "vitest";
import { bindRequest, requestHashOf } from "../../../src/x402/purchase/earlier-payments.ts";

const BODY = Buffer.from("work");

function request(headers: Readonly<Record<string, readonly string[]>> = {}, change: object = {}) {
  const headerValues = (name: string) => headers[name] ?? [];
  return { method: "GET", path: "/weather/Paris", query: "units=metric", headerValues, ...change };
}

const sha256 = (text: string) => createHash("sha256").update(text, "latin1").digest("hex");

describe("The hash of a request", () => {
  it("Is the hash of the body at the ids of a job", () => {
    const binding = bindRequest(request(), BODY, undefined);
    expect(binding).toEqual({ bodyHash: sha256("work"), boundHeaders: undefined });
    expect(requestHashOf(binding)).toBeUndefined();
  });

  it("Is over method, path, query, bound headers, Content-Encoding and body at a route", () => {
    const sent = { accept: ["a", "b"], "content-encoding": ["gzip"], "x-other": ["1"] };
    const binding = bindRequest(request(sent), BODY, "accept,content-type");
    const head = "GET\n/weather/Paris\nunits=metric\naccept: a\naccept: b\ncontent-encoding: gzip\n\n";
    expect(requestHashOf(binding)).toBe(sha256(`${head}work`));
    expect(binding.boundHeaders).toBe("accept,content-type");
  });

  test.each<[difference: string, other: ReturnType<typeof request>]>([
    ["method", request({}, { method: "POST" })],
    ["path", request({}, { path: "/weather/paris" })],
    ["query", request({}, { query: "" })],
    ["place of the question mark", request({}, { path: "/weather/Parisu", query: "nits=metric" })],
    ["header", request({ accept: ["a"] })],
    ["empty header", request({ accept: [""] })],
    ["encoding", request({ "content-encoding": ["br"] })],
  ])("Changes with the %s", (_, other) => {
    const hashOf = (one: ReturnType<typeof request>) => bindRequest(one, BODY, "accept").bodyHash;
    expect(hashOf(other)).not.toBe(hashOf(request()));
  });

  it("Does not change with a header that is not bound", () => {
    const other = request({ "x-other": ["1"] });
    expect(bindRequest(other, BODY, "accept")).toEqual(bindRequest(request(), BODY, "accept"));
  });
});
