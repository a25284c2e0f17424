import { isSameAddress } from "../../core/network-address.ts";
import { parseRoute, type Route, routeJobIndex, routeShape } from "../../core/route.ts";
import { JOB_DEFAULTS } from "../jobs.ts";
import { earlierPlace, type MistakeList, type Place } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";

/** Fills the defaults of jobs, of which the index follows from a route. Reports jobs that have neither. */
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
  const isBuiltIn = builtInPaths(tables);
  const seen = new Map<string, Place>();
  for (const [i, job] of (tables.jobs ?? []).entries()) {
    const route = job?.route === undefined ? undefined : parseRoute(job.route);
    if (route === undefined) continue;
    const place = mistakes.at("jobs", i, "route");
    if (isBuiltIn(route)) {
      place.report(`is "${job?.route}", whose path is one of jobgate itself; expected another path`);
      continue;
    }
    const same = route.methods.flatMap(
      (method) => earlierPlace(seen, `${method} ${routeShape(route)}`, place) ?? [],
    );
    if (same[0] !== undefined)
      place.report(
        `is "${job?.route}", which cannot be told apart from ${same[0].text}; expected another method or path`,
      );
  }
}

/** Matches the routes whose path jobgate answers itself, also as a listener that shares the socket. */
function builtInPaths({ x402, operator, webhooks, paths }: ConfigTables): (route: Route) => boolean {
  const address = x402?.bindAddress;
  const isShared = (other: NonNullable<typeof operator | typeof webhooks> | undefined) =>
    address !== undefined && other?.bindAddress !== undefined && isSameAddress(address, other.bindAddress);
  const endpoints = (webhooks?.endpoints ?? []).flatMap((endpoint) => endpoint?.path ?? []);
  const own = [
    "/x402/",
    ...paths.flatMap((ofPart) => ofPart.x402 ?? []),
    ...(isShared(operator) ? paths.flatMap((ofPart) => ofPart.operator ?? []) : []),
    ...(isShared(webhooks) ? ["/webhooks/health", ...endpoints] : []),
  ];
  return ({ path }) => own.some((one) => (one.endsWith("/") ? `${path}/`.startsWith(one) : path === one));
}
