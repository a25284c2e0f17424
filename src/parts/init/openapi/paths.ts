import { parseRoute } from "../../../core/route.ts";
import { DescriptionProblem } from "./document.ts";

/** A route, and the new names of the parameters in its path. */
export interface NamedRoute {
  readonly route: string;
  /** Names in the route by names in the description. */
  readonly renamed: ReadonlyMap<string, string>;
}

/**
 * Returns the route of an operation.
 * @param path template of the description: `/weather/{city-name}`
 * @throws DescriptionProblem for a path that no route can have
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
      // Cloud gateways write `{name+}` for a parameter that matches all remaining segments.
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
