import { parseRoute } from "../../../core/route.ts";
import { DescriptionProblem } from "./document.ts";

/** A route, and the names that the parameters of its path have in it. */
export interface NamedRoute {
  readonly route: string;
  /** Names of the route by the names of the description. */
  readonly renamed: ReadonlyMap<string, string>;
}

/**
 * Returns the route of an operation.
 * @param path template of the description: `/weather/{city-name}`
 * @throws DescriptionProblem for a path that no route has
 */
export function routeOf(method: string, path: string): NamedRoute {
  const renamed = new Map<string, string>();
  const segments = path
    .slice(1)
    .split("/")
    .map((segment, i, all) => {
      if (segment === "") {
        if (i > 0 && i === all.length - 1) return segment;
        throw new DescriptionProblem("has an empty segment");
      }
      // Gateways of clouds write the parameter of all segments that are left so.
      const [, name, rest] = /^\{([^{}]+?)(\+?)\}$/.exec(segment) ?? [];
      if (name === undefined) return segment;
      const own = name.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(?=[0-9])/, "_");
      renamed.set(name, own);
      return `{${own}${rest === "" ? "" : "..."}}`;
    });
  const route = `${method} /${segments.join("/")}`;
  if (parseRoute(route) !== undefined) return { route, renamed };
  const isPart = segments.some((segment) => /[{}]/.test(segment) && !/^\{[^{}]+\}$/.test(segment));
  throw new DescriptionProblem(
    isPart ? "has a parameter that is a part of a segment" : "has a path that no route can have",
  );
}
