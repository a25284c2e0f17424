import { isSoldIn, type Job, type JobRunner, type X402Config } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobCall, type JobKey, jobKeyText } from "../../core/job-call.ts";
import { type Route, routeText } from "../../core/route.ts";
import { type JobRequest, requireForwardable } from "../../http/request.ts";
import { decodeSegments, encodeSegments, isPlainQuery, type RouteHandler } from "../../http/routes.ts";
import { forwardedHeadersOf } from "../producer.ts";
import { parseJobPath } from "../wire/paths.ts";

/** Longest path with its query string, because many servers refuse longer paths. */
const MAX_TARGET_BYTES = 8 * 1024;

type RequestMetadata = NonNullable<JobCall["requestMetadata"]>;

/** A route that a part answers without payment. */
export interface FreeRoute {
  readonly route: Route;
  /** The part's runner that answers at the route. */
  readonly runner: JobRunner;
  readonly answer: RouteHandler;
}

/** A job that is sold at a path, or a free route. */
type RouteEntry = { readonly job: Job } | FreeRoute;

/**
 * The jobs that are sold at routes of their own, at one configuration. A request selects a job by the IDs in its path, or
 * otherwise by its method and path.
 */
export class JobRoutes {
  readonly #protocols: ReadonlySet<string>;
  readonly #tree = new RouteTree<RouteEntry>();
  readonly #routes = new Map<string, Route>();
  readonly #headersOf: ReturnType<typeof forwardedHeadersOf>;
  readonly #tokens: X402Config["acceptedTokens"];

  /** @param protocols first path segments of the paths that contain IDs */
  constructor(
    config: Pick<X402Config, "jobs" | "forwardHeaders" | "acceptedTokens">,
    protocols: Iterable<string>,
    free: readonly FreeRoute[] = [],
  ) {
    this.#protocols = new Set(protocols);
    this.#headersOf = forwardedHeadersOf(config);
    this.#tokens = config.acceptedTokens;
    for (const job of config.jobs ?? []) {
      if (job.route === undefined) continue;
      this.#tree.add(job.route, { job });
      this.#routes.set(jobKeyText(job.serviceId, job.jobIndex), job.route);
    }
    for (const entry of free) this.#tree.add(entry.route, entry);
  }

  /**
   * Finds the entries at a raw path, by method. The entry of HEAD is the entry that matches best.
   * @returns undefined if the path has no entry
   */
  find(path: string): ReadonlyMap<string, Found<RouteEntry>> | undefined {
    const found = this.#tree.find(path);
    const [first] = found;
    if (first === undefined) return undefined;
    const byMethod = new Map([["HEAD", first]]);
    for (const one of found)
      for (const method of one.route.methods) if (!byMethod.has(method)) byMethod.set(method, one);
    return byMethod;
  }

  /** Finds the job whose offers GET shows at a path at which GET buys nothing; undefined if GET is not answered there. */
  shownByGet(path: string): Job | undefined {
    const found = this.find(path);
    if (found === undefined || found.has("GET")) return undefined;
    for (const { entry } of found.values())
      if ("job" in entry && this.#isAskedByGet(entry.job)) return entry.job;
    return undefined;
  }

  #isAskedByGet({ name }: Job): boolean {
    const tokens = this.#tokens;
    return tokens.some((token) => token.offered?.isAskedByGet === true && isSoldIn(token, name, tokens));
  }

  /** Returns the route of a job; undefined for a job that is sold at its IDs. */
  routeOf({ serviceId, jobIndex }: JobKey): Route | undefined {
    return this.#routes.get(jobKeyText(serviceId, jobIndex));
  }

  /**
   * Checks that a job is sold at the method and path of a request.
   * @throws GatewayError `not_found`; `job_not_found` for the ids of a job with a route; `query_not_allowed`
   */
  requireSold(request: JobRequest, job: JobKey): void {
    if (!this.#hasIds(request)) {
      const found = this.find(request.path)?.get(request.method);
      const isAtRoute = found !== undefined && "job" in found.entry && equalJobs(found.entry.job, job);
      if (isAtRoute && isPlainQuery(request.query)) return;
      throw new GatewayError("not_found", "No job is sold at this method and path. Nothing was charged.");
    }
    const route = this.routeOf(job);
    if (route !== undefined)
      throw new GatewayError(
        "job_not_found",
        `This job is sold at ${routeText(route)}. Nothing was charged.`,
      );
    this.requireNoQuery(request);
  }

  /**
   * Checks that a job's offers are shown at the method and path of a request that buys nothing.
   * @throws GatewayError as {@link requireSold}
   */
  requireShown(request: JobRequest, job: JobKey): void {
    const shown = request.method === "GET" ? this.shownByGet(request.path) : undefined;
    if (shown === undefined || !equalJobs(shown, job)) this.requireSold(request, job);
  }

  /** @throws GatewayError `query_not_allowed`, because the buyer would pay for a query string that does not reach the runner */
  requireNoQuery(request: JobRequest): void {
    if (request.query === "" || !this.#hasIds(request)) return;
    throw new GatewayError(
      "query_not_allowed",
      "The job does not get the query string: put its values into the body. Nothing was charged.",
    );
  }

  /** Returns the names of the headers that a payment for the request is bound to; undefined for a job at its IDs. */
  boundHeadersOf(request: JobRequest, job: JobKey): string | undefined {
    return this.#hasIds(request) ? undefined : this.#headersOf(job).names.join(",");
  }

  /** Returns the decoded parameters of the request's path; none for a job at its IDs. */
  paramsOf(request: JobRequest): Found<RouteEntry>["params"] {
    return this.#foundBy(request)?.params ?? [];
  }

  /** Returns the request's method, path, query and parameters for the runner. @throws GatewayError `headers_too_large` */
  metadataOf(request: JobRequest): RequestMetadata {
    const { method, path, query } = request;
    const found = this.#foundBy(request);
    if (found === undefined) return [];
    const canonical = canonicalPath(path);
    const target = query === "" ? canonical : `${canonical}?${query}`;
    requireForwardable("The path with the query string", target, MAX_TARGET_BYTES);
    return [
      ["X-HTTP-METHOD", method],
      ["X-HTTP-PATH", canonical],
      ["X-HTTP-QUERY", query],
      ...found.params.map(([name, value]) => [`X-HTTP-PARAM-${name.toUpperCase()}`, value] as const),
    ];
  }

  /** @throws GatewayError `headers_too_large` for a path, query string or header that the job's runner cannot get */
  requireRoom(request: JobRequest, job: JobKey): void {
    this.#headersOf(job).read(request);
    this.metadataOf(request);
  }

  #foundBy(request: JobRequest): Found<RouteEntry> | undefined {
    return this.#hasIds(request) ? undefined : this.find(request.path)?.get(request.method);
  }

  #hasIds({ path }: JobRequest): boolean {
    const ids = parseJobPath(path);
    return ids !== undefined && this.#protocols.has(ids.protocol);
  }
}

/** Entry whose route matches a path. */
interface Found<Entry> {
  readonly entry: Entry;
  readonly route: Route;
  /** Decoded values of the route's parameters. The value of `{name...}` has its segments joined by slashes. */
  readonly params: readonly (readonly [name: string, value: string])[];
}

/** Node in the tree of routes: one segment, shared by all routes that begin alike. */
class Node<Entry> {
  readonly literals = new Map<string, Node<Entry>>();
  one: Node<Entry> | undefined;
  readonly ending: { readonly route: Route; readonly entry: Entry }[] = [];
  /** Routes whose last segment matches all remaining segments. */
  readonly rest: { readonly route: Route; readonly entry: Entry }[] = [];

  literal(text: string): Node<Entry> {
    const node = this.literals.get(text) ?? new Node<Entry>();
    this.literals.set(text, node);
    return node;
  }

  parameter(): Node<Entry> {
    this.one ??= new Node<Entry>();
    return this.one;
  }
}

/** Routes by their segments. A path is decoded once, and compared segment by segment. */
export class RouteTree<Entry> {
  readonly #root = new Node<Entry>();

  add(route: Route, entry: Entry): void {
    let node = this.#root;
    for (const segment of route.segments) {
      switch (segment.kind) {
        case "literal":
          node = node.literal(segment.text);
          break;
        case "one":
          node = node.parameter();
          break;
        case "rest":
          node.rest.push({ route, entry });
          return;
      }
    }
    node.ending.push({ route, entry });
  }

  /** Finds the entries that match a raw path, the best match first: a literal before `{name}` before `{name...}`. */
  find(path: string): readonly Found<Entry>[] {
    const segments = decodeSegments(path);
    if (segments === undefined) return [];
    const found: Found<Entry>[] = [];
    collect(this.#root, segments, 0, found);
    return found;
  }
}

/** Re-encodes a matched path, so that each path has one form. */
export function canonicalPath(path: string): string {
  return encodeSegments(decodeSegments(path) ?? []);
}

function collect<Entry>(
  node: Node<Entry>,
  segments: readonly string[],
  depth: number,
  found: Found<Entry>[],
): void {
  const segment = segments[depth];
  if (segment === undefined) {
    for (const { route, entry } of node.ending)
      found.push({ route, entry, params: paramsOf(route, segments) });
    return;
  }
  const literal = node.literals.get(segment);
  if (literal !== undefined) collect(literal, segments, depth + 1, found);
  // Only a route that ends in a slash matches a path that ends in a slash.
  if (segment === "") return;
  if (node.one !== undefined) collect(node.one, segments, depth + 1, found);
  if (segments.at(-1) === "") return;
  for (const { route, entry } of node.rest) found.push({ route, entry, params: paramsOf(route, segments) });
}

function paramsOf(route: Route, segments: readonly string[]): [name: string, value: string][] {
  return route.segments.flatMap((segment, i): [string, string][] => {
    if (segment.kind === "literal") return [];
    const value = segment.kind === "one" ? segments[i] : segments.slice(i).join("/");
    return [[segment.name, value as string]];
  });
}
