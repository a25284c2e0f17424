import { type BindAddress, isSameAddress } from "../../core/network-address.ts";
import { parseRoute, type Route, routeJobIndex, routeShape } from "../../core/route.ts";
import { JOB_DEFAULTS } from "../jobs.ts";
import { earlierPlace, type MistakeList, type Place } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";

/**
 * Fills the defaults of jobs. A route determines the default of a job's index. Reports jobs that have neither an index nor a
 * route.
 */
export function fillJobs(tables: ConfigTables, mistakes: MistakeList): ConfigTables {
  if (tables.jobs === undefined) return tables;
  const jobs = tables.jobs.map((given, i) => {
    const job = given && {
      ...given,
      charge: given.charge ?? JOB_DEFAULTS.charge,
      answer: given.answer ?? JOB_DEFAULTS.answer,
    };
    if (job === undefined || job.jobIndex !== undefined) return job;
    const place = mistakes.at("jobs", i);
    const route = job.route === undefined ? undefined : parseRoute(job.route);
    if (route !== undefined && !place.at("job_index").isReported)
      return { ...job, jobIndex: routeJobIndex(route) };
    if (!place.at("route").isReported)
      place.at("job_index").reportMissing("is missing; expected an integer from 0 to 4294967295, or a route");
    return job;
  });
  return { ...tables, jobs };
}

/** Checks the routes of `[[jobs]]` against each other, and against the paths that jobgate answers itself. */
export function checkRoutes(tables: ConfigTables, mistakes: MistakeList): void {
  const check = new RouteCheck(tables);
  for (const [i, job] of (tables.jobs ?? []).entries())
    check.add(job?.route, mistakes.at("jobs", i, "route"));
}

/** Compares routes with each other, and with the paths that jobgate answers itself. */
export class RouteCheck {
  readonly #isBuiltIn: (route: Route) => boolean;
  readonly #seen = new Map<string, Place>();

  constructor(tables: ConfigTables) {
    this.#isBuiltIn = builtInPaths(tables);
  }

  /** Adds a route. Reports a route that matches the same requests as an earlier route. */
  add(text: string | undefined, place: Place): void {
    const same = this.know(text, place);
    if (same === undefined) return;
    place.report(
      same === "built in"
        ? `is "${text}", whose path is one of jobgate itself; expected another path`
        : `is "${text}", which cannot be told apart from ${same.text}; expected another method or path`,
    );
  }

  /** Adds a route. @returns the earlier route that matches the same requests */
  know(text: string | undefined, place: Place): Place | "built in" | undefined {
    const route = text === undefined ? undefined : parseRoute(text);
    if (route === undefined) return undefined;
    if (this.#isBuiltIn(route)) return "built in";
    const same = route.methods.map((method) =>
      earlierPlace(this.#seen, `${method} ${routeShape(route)}`, place),
    );
    return same.find((place) => place !== undefined);
  }
}

/**
 * Matches paths that jobgate itself answers at the address of a listener. Several listeners can share an address. Paths
 * below `/x402/` are therefore matched at every address.
 */
export function ownPathsAt(
  listener: "x402" | "webhooks",
  { x402, operator, webhooks, paths }: ConfigTables,
): (path: string) => boolean {
  const own = { x402, webhooks }[listener];
  const isShared = (other: typeof own | typeof operator) =>
    other !== undefined && (other === own || areShared(own?.bindAddress, other.bindAddress));
  const answered = [
    "/x402/",
    ...(isShared(x402) ? paths.flatMap((ofPart) => ofPart.x402 ?? []) : []),
    ...(isShared(operator) ? paths.flatMap((ofPart) => ofPart.operator ?? []) : []),
    ...(isShared(webhooks) ? ["/webhooks/health"] : []),
  ];
  return (path) => answered.some((one) => (one.endsWith("/") ? `${path}/`.startsWith(one) : path === one));
}

function areShared(one: BindAddress | undefined, other: BindAddress | undefined): boolean {
  return one !== undefined && other !== undefined && isSameAddress(one, other);
}

/**
 * Matches the routes whose path jobgate itself answers, at the listener that sells jobs or at a listener with the same
 * address.
 */
function builtInPaths(tables: ConfigTables): (route: Route) => boolean {
  const { x402, webhooks } = tables;
  const isOwn = ownPathsAt("x402", tables);
  const isShared = areShared(x402?.bindAddress, webhooks?.bindAddress);
  const endpoints = isShared ? (webhooks?.endpoints ?? []).map((endpoint) => endpoint?.path) : [];
  return ({ path }) => isOwn(path) || endpoints.includes(path);
}
