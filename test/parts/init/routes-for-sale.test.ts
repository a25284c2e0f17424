import { expect, test } from "vitest";
import { parseNamedRoute, pricedRoutes } from "../../../src/parts/init/routes-for-sale.ts";

/** Time that a comparison of each route with each other one would exceed by far. */
const MOMENT_MS = 5_000;

const described = {
  routes: [
    { route: "GET /weather/{city}", price: "$0.02", details: { name: "weather", title: "Weather" } },
    { route: "POST /notes", details: { name: "notes", isIdempotent: true } },
  ],
  leftOut: [],
};

const priced = (named: readonly string[], price?: string) =>
  pricedRoutes({
    named: named.reduce((before, one) => parseNamedRoute(one, before), parseNone()),
    described,
    price,
  }).map((one) => [one.route, one.price, one.details.name]);
const parseNone = () => [] as ReturnType<typeof parseNamedRoute>;

test("Prefers the price beside a route to the price of the description, and both to the price for all routes", () => {
  expect(priced(["GET /weather/{town}=0.05"], "$0.01")).toEqual([
    ["GET /weather/{town}", "$0.05", "weather"],
  ]);
  expect(priced(["GET /weather/{town}"], "$0.01")).toEqual([["GET /weather/{town}", "$0.02", "weather"]]);
  expect(priced(["GET /other"], "$0.01")).toEqual([["GET /other", "$0.01", undefined]]);
});

test("Sells all of a description without a route", () => {
  expect(priced([], "$0.01")).toEqual([
    ["GET /weather/{city}", "$0.02", "weather"],
    ["POST /notes", "$0.01", "notes"],
  ]);
  expect(() => priced([])).toThrow("--price: 1 of 2 operations have no price in the description");
});

test("Sells two operations that cannot be told apart by their own details, which the check of the routes refuses", () => {
  const routes = [
    { route: "GET /{x}", details: { name: "x" } },
    { route: "GET /{y}", details: { name: "y" } },
  ];
  const names = pricedRoutes({ named: [], described: { routes, leftOut: [] }, price: "$1" });
  expect(names.map(({ details }) => details.name)).toEqual(["x", "y"]);
});

test("Says what is wrong with an invalid price", () => {
  const [free] = parseNamedRoute("GET /x=free");
  expect(() => priced([`${free?.route}`])).toThrow("GET /x=free has no price; expected 'GET /x=$0.01'");
});

test("Finds what a description of thousands of operations says of each in a moment", () => {
  const routes = Array.from({ length: 20_000 }, (_, i) => ({ route: `GET /things/${i}`, details: {} }));
  const begun = performance.now();
  pricedRoutes({ named: [], described: { routes, leftOut: [] }, price: "$1" });
  expect(performance.now() - begun).toBeLessThan(MOMENT_MS);
});

test("Takes an equals sign in a path for the path's own unless a price follows it", () => {
  expect(parseNamedRoute("GET|POST /a=b=$0.5")).toEqual([{ route: "GET|POST /a=b", price: "$0.5" }]);
  expect(parseNamedRoute("GET /a=b")).toEqual([{ route: "GET /a=b" }]);
});
