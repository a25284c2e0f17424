import { createHash } from "node:crypto";
import { describe, expect, it, test } from "vitest";
import { parseRoute, type Route, routeJobIndex, routeShape, routeText } from "../../src/core/route.ts";

const route = (text: string) => parseRoute(text) as Route;

describe("A route", () => {
  test.each([
    "GET /weather",
    "GET /weather/{city}",
    "GET|POST /a/{b}/c/{rest...}",
    "DELETE /{all...}",
    "PUT|PATCH /v1/items:batch/{item_id}",
    "POST /a~b/c.d/e@f,g=h",
  ])("Is read, and written as it was: %s", (text) => {
    expect(routeText(route(text))).toBe(text);
  });

  test.each([
    ["", "no method"],
    ["/weather", "no method"],
    ["GET weather", "no slash"],
    ["GET  /weather", "two spaces"],
    ["GET /weather ", "a space at the end"],
    ["get /weather", "a method in small letters"],
    ["HEAD /weather", "HEAD, which buys nothing"],
    ["OPTIONS /weather", "OPTIONS, which is CORS"],
    ["CONNECT /weather", "another method"],
    ["GET|GET /weather", "a method twice"],
    ["GET| /weather", "an empty method"],
    ["GET /", "no segment"],
    ["GET /a//b", "an empty segment"],
    ["GET /a//", "two slashes at the end"],
    ["GET /{rest...}/", "a slash after the rest"],
    ["GET /a/../b", "a dot segment"],
    ["GET /./b", "a dot segment"],
    ["GET /a%20b", "percent-encoding"],
    ["GET /a;b", "a semicolon"],
    ["GET /a?b=c", "a query string"],
    ["GET /a#b", "a fragment"],
    ["GET /a\\b", "a backslash"],
    ["GET /wörter", "a letter that is not ASCII"],
    ["GET /a{b}", "a parameter that is a part of a segment"],
    ["GET /{}", "a parameter without a name"],
    ["GET /{1a}", "a name that begins with a digit"],
    ["GET /{a-b}", "a name with a hyphen"],
    ["GET /{rest...}/a", "the rest before the end"],
    ["GET /{a}/{A}", "two names that are the same in capitals"],
  ])("Is a mistake: %s (%s)", (text) => {
    expect(parseRoute(text)).toBeUndefined();
  });

  it("Has the shape of every route that matches the same paths", () => {
    expect(routeShape(route("GET /a/{b}/{c...}"))).toBe(routeShape(route("POST /a/{x}/{y...}")));
    expect(routeShape(route("GET /a/{b}"))).not.toBe(routeShape(route("GET /a/{b...}")));
    expect(routeShape(route("GET /a/{b}"))).not.toBe(routeShape(route("GET /a/b")));
  });
});

describe("The job index of a route", () => {
  it("Is made of the sorted methods, a space and the path, with the top bit set", () => {
    const hash = createHash("sha256").update("GET|POST /weather/{city}").digest("hex");
    const first31Bits = BigInt(`0x${hash}`) >> 225n;
    const index = routeJobIndex(route("POST|GET /weather/{city}"));
    expect(BigInt(index)).toBe((1n << 31n) | first31Bits);
    expect(index).toBe(routeJobIndex(route("GET|POST /weather/{city}")));
    expect(index).not.toBe(routeJobIndex(route("GET /weather/{city}")));
  });
});
