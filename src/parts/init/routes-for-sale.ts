import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { loadFromOptions, Refusal } from "../../commands/input.ts";
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

/** Adds `GET /weather/{city}=$0.01` to the routes before it. */
export function parseNamedRoute(value: string, before: readonly NamedRoute[] = []): readonly NamedRoute[] {
  const [, route = "", price] = /^(.*?)(?:=(\$?[0-9]+(?:\.[0-9]*)?))?$/s.exec(value) ?? [];
  if (parseRoute(route) === undefined)
    throw new InvalidArgumentError(`Expected ${ROUTE_FORM}, and its price: 'GET /weather/{city}=$0.01'.`);
  return [...before, price === undefined ? { route } : { route, price: parsePrice(price) }];
}

/**
 * Returns the routes for sale: those that are named, or all of a description. A price beside the route is taken before one of the
 * description, and that before one for all.
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
  const wanted = named.length > 0 ? named : (described?.routes ?? []);
  const routes = wanted.map((one) => {
    const known = described?.routes.find((other) => isSame(one.route, other.route));
    const isPost = /^[^ ]*POST/.test(one.route);
    return {
      route: one.route,
      price: one.price ?? known?.price ?? price,
      details: known?.details ?? (isPost ? { isIdempotent: false } : {}),
    };
  });
  const without = routes.filter((one) => one.price === undefined);
  const [first] = without;
  if (first !== undefined)
    throw new InvalidArgumentError(
      named.length > 0
        ? `--route: ${first.route} has no price; expected '${first.route}=$0.01', or --price for all.`
        : `--price: ${without.length} of ${routes.length} operations have no price in the description; expected the price of each, such as 0.01.`,
    );
  return routes.map((one) => ({ ...one, price: one.price ?? "" }));
}

function isSame(one: string, other: DescribedRoute["route"]): boolean {
  const [a, b] = [parseRoute(one), parseRoute(other)];
  if (a === undefined || b === undefined) return false;
  return `${a.methods}` === `${b.methods}` && routeShape(a) === routeShape(b);
}

/**
 * Leaves out the routes that jobgate cannot sell, such as those at its own paths.
 * @throws Refusal with the mistakes that no route makes, and if no route is left
 */
export async function withoutMistakes(
  config: NewConfig,
): Promise<{ readonly config: NewConfig; readonly leftOut: readonly Finding[] }> {
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
      if (route === undefined) others.push(`${keyPath}: ${message}`);
      else reasons.set(route, key === "" || key === "route" ? message : `has a wrong ${key}: ${message}`);
    }
    if (others.length > 0) throw new Refusal(others);
    const left = routes.filter((route) => !reasons.has(route));
    const leftOut = [...reasons].map(([{ route }, reason]) => ({ operation: route, reason }));
    if (config.api === undefined) return { config, leftOut };
    if (left.length === 0) throw new Refusal(["No route is left to sell.", ...leftOut.map(findingText)]);
    return { config: { ...config, api: { ...config.api, routes: left } }, leftOut };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export function findingText({ operation, reason }: Finding): string {
  return `${operation}: ${reason}`;
}
