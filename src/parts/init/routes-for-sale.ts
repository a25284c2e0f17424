import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { loadFromOptions, Refusal } from "../../commands/input.ts";
import { defined } from "../../core/objects.ts";
import { printable } from "../../core/printable.ts";
import { parseRoute, ROUTE_FORM, routeShape } from "../../core/route.ts";
import { parsePrice } from "./choices.ts";
import type { NewConfig, NewRoute } from "./new-config.ts";
import type { DescribedApi, DescribedRoute, Finding } from "./openapi/operations.ts";
import { writeConfig } from "./write-config.ts";

/** A route that the command line names. */
export interface NamedRoute {
  readonly route: string;
  readonly price?: string;
}

/** Parses a route such as `GET /weather/{city}=$0.01`, and returns it after the earlier routes. */
export function parseNamedRoute(value: string, before: readonly NamedRoute[] = []): readonly NamedRoute[] {
  const [, route = "", price] = /^(.*?)(?:=(\$?[0-9]+(?:\.[0-9]*)?))?$/s.exec(value) ?? [];
  if (parseRoute(route) === undefined)
    throw new InvalidArgumentError(`Expected ${ROUTE_FORM}, and its price: 'GET /weather/{city}=$0.01'.`);
  return [...before, price === undefined ? { route } : { route, price: parsePrice(price) }];
}

/**
 * Returns the routes for sale: the named routes, or all routes of a description. A price beside the route takes precedence
 * over a price in the description, which takes precedence over a price for all routes.
 * @throws InvalidArgumentError without routes, and for a route without a price
 */
export function pricedRoutes(from: {
  readonly named: readonly NamedRoute[];
  readonly described: DescribedApi | undefined;
  readonly price: string | undefined;
}): readonly NewRoute[] {
  const { named, described, price } = from;
  if (named.length === 0 && described === undefined)
    throw new InvalidArgumentError(
      "Neither --route nor --openapi is given; expected --route 'GET /weather/{city}=$0.01', or the description of the API.",
    );
  const known = new Map(described?.routes.map((one) => [shapeOf(one.route), one]));
  const wanted: readonly (readonly [NamedRoute, DescribedRoute | undefined])[] =
    named.length > 0
      ? named.map((one) => [one, known.get(shapeOf(one.route))])
      : (described?.routes ?? []).map((one) => [one, one]);
  const routes = wanted.map(([one, operation]) => {
    const isPost = /^[^ ]*POST/.test(one.route);
    return defined({
      route: one.route,
      price: one.price ?? operation?.price ?? price,
      details: operation?.details ?? (isPost ? { isIdempotent: false } : {}),
      ignoredPrice: one.price === undefined ? operation?.ignoredPrice : undefined,
    });
  });
  const without = routes.filter((one) => one.price === undefined);
  const [first] = without;
  if (first !== undefined)
    throw new InvalidArgumentError(
      named.length > 0
        ? `--route: ${first.route} has no price; expected '${first.route.replace(/=[^=/]*$/, "")}=$0.01', or --price for all.`
        : `--price: ${without.length} of ${routes.length} operations have no price in the description; expected the price of each, such as 0.01.${ignoredText(first)}`,
    );
  return routes.map((one) => ({ ...one, price: one.price ?? "" }));
}

/** Returns a key that two routes share if no request can tell them apart. */
function shapeOf(text: string): string {
  const route = parseRoute(text);
  return route === undefined ? text : `${route.methods} ${routeShape(route)}`;
}

function ignoredText({ route, ignoredPrice }: Pick<NewRoute, "route" | "ignoredPrice">): string {
  return ignoredPrice === undefined ? "" : printable(` ${route}: its x-payment-info ${ignoredPrice}`);
}

/**
 * Leaves out the routes that jobgate cannot sell, such as routes at jobgate's own paths.
 * @throws Refusal with the mistakes that no route caused, and if no route is left
 */
export async function withoutMistakes(
  config: NewConfig,
  before: readonly Finding[] = [],
): Promise<{ readonly config: NewConfig; readonly leftOut: readonly Finding[] }> {
  if (config.api?.routes.length === 0) throw nothingLeft(before);
  const folder = await mkdtemp(join(tmpdir(), "jobgate-new-"));
  try {
    const path = join(folder, "jobgate.toml");
    await writeConfig(path, config);
    const loaded = await loadFromOptions({ config: path });
    const routes = config.api?.routes ?? [];
    const reasons = new Map<NewRoute, string>();
    const others: string[] = [];
    for (const { keyPath, message } of loaded.ok ? [] : loaded.mistakes) {
      const [, index = "", key = ""] = /^jobs\[([0-9]+)\]\.?(.*)$/.exec(keyPath) ?? [];
      const route = index === "" ? undefined : routes[Number(index)];
      if (route === undefined) others.push(`${optionOf(keyPath)}: ${message}`);
      else reasons.set(route, key === "" || key === "route" ? message : `has a wrong ${key}: ${message}`);
    }
    if (others.length > 0) throw new Refusal(others);
    const left = routes.filter((route) => !reasons.has(route));
    const found = [...reasons].map(([{ route }, reason]) => ({ operation: route, reason }));
    const leftOut = [...before, ...found];
    if (config.api === undefined) return { config, leftOut };
    if (left.length === 0) throw nothingLeft(leftOut);
    return { config: { ...config, api: { ...config.api, routes: left } }, leftOut };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function nothingLeft(leftOut: readonly Finding[]): Refusal {
  return new Refusal(["No route is left to sell.", ...leftOut.map(findingText)]);
}

/** Options that set the keys of a new configuration. */
const OPTIONS: readonly (readonly [key: RegExp, option: string])[] = [
  [/^x402\.accepted_tokens\[0\]\.pay_to$/, "--pay-to"],
  [/^x402\.accepted_tokens\[0\]\.rpc_url$/, "--rpc-url"],
  [/^x402\.facilitator_url$/, "--facilitator"],
  [/^x402\.public_url$/, "--public-url"],
  [/^x402\.bind_address$/, "--listen"],
  [/^operator\.bind_address$/, "--operator"],
  [/^apis\[0\]\.headers\b/, "--header"],
  [/^apis\[0\]\.url$/, "URL of the API"],
];

/** Returns the option that sets a key, so that mistakes name what was written in the command. */
function optionOf(keyPath: string): string {
  return OPTIONS.find(([key]) => key.test(keyPath))?.[1] ?? keyPath;
}

/** Returns text of a description without control characters, for a terminal. */
export function findingText({ operation, reason }: Finding): string {
  return printable(`${operation}: ${reason}`);
}

/** Prints the operations of a description that are not sold, and the prices that are not used. */
export function showFindings({ api }: Pick<NewConfig, "api">, leftOut: readonly Finding[]): void {
  for (const finding of leftOut) console.error(`Not for sale: ${findingText(finding)}`);
  for (const route of api?.routes ?? [])
    if (route.ignoredPrice !== undefined) console.error(`Sold at ${route.price}:${ignoredText(route)}`);
}
