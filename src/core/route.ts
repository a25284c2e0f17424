import { createHash } from "node:crypto";

/** Methods that buy a job at a route. HEAD only shows the offers, and OPTIONS is CORS. */
const ROUTE_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

export type RouteMethod = (typeof ROUTE_METHODS)[number];

/** Returns false for a method whose requests have no body, as clients send them. */
export function takesBody(method: string): boolean {
  return method !== "GET" && method !== "HEAD" && method !== "DELETE";
}

/**
 * A segment of a route's path: a text, one segment of any text, or all segments that are left. A text is empty only if
 * it follows a slash that ends the path.
 */
export type RouteSegment =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "one"; readonly name: string }
  | { readonly kind: "rest"; readonly name: string };

/** Methods and path at which a job is sold: `GET|POST /weather/{city}`. */
export interface Route {
  /** Each once, ordered as in the configuration. */
  readonly methods: readonly RouteMethod[];
  /** Path as the configuration has it, with its parameters in braces. */
  readonly path: string;
  readonly segments: readonly RouteSegment[];
}

/** Paths that jobgate answers itself. A path that ends in a slash stands for all paths below it. */
export interface OwnPaths {
  /** Paths of the listener that sells jobs. */
  readonly x402?: readonly string[];
  /** Paths of the operator's listener. */
  readonly operator?: readonly string[];
}

export const ROUTE_FORM =
  "METHOD[|METHOD] /path with GET, POST, PUT, PATCH or DELETE, where {name} is one segment and {name...}, at the end, all that are left";

const PARAMETER = /^\{([A-Za-z_][A-Za-z0-9_]{0,63})(\.\.\.)?\}$/;
/** Characters that a segment of a URL can have unencoded, except the semicolon. */
const LITERAL = /^[A-Za-z0-9\-._~!$&'()*+,=:@]+$/;

const AFTER_SLASH: RouteSegment = { kind: "literal", text: "" };

/** Parses a route of the configuration. @returns undefined for any other text */
export function parseRoute(text: string): Route | undefined {
  const [names = "", path = "", ...more] = text.split(" ");
  const methods = names.split("|").flatMap((name) => ROUTE_METHODS.find((method) => method === name) ?? []);
  const areMethods = methods.length === names.split("|").length && new Set(methods).size === methods.length;
  if (!areMethods || more.length > 0 || !path.startsWith("/")) return undefined;
  const texts = path.slice(1).split("/");
  const segments = texts.map((text, i) =>
    text === "" && i > 0 && i === texts.length - 1 ? AFTER_SLASH : parseSegment(text),
  );
  const known = segments.filter((segment) => segment !== undefined);
  const parameters = parameterNames({ segments: known }).map((name) => name.toUpperCase());
  const hasRestAtEnd = known.slice(0, -1).every(({ kind }) => kind !== "rest");
  const isValid =
    known.length === segments.length && new Set(parameters).size === parameters.length && hasRestAtEnd;
  return isValid ? { methods, path, segments: known } : undefined;
}

function parseSegment(text: string): RouteSegment | undefined {
  const [, name, rest] = PARAMETER.exec(text) ?? [];
  if (name !== undefined) return { kind: rest === undefined ? "one" : "rest", name };
  return LITERAL.test(text) && text !== "." && text !== ".." ? { kind: "literal", text } : undefined;
}

/** Writes a route as the configuration has it. */
export function routeText({ methods, path }: Route): string {
  return `${methods.join("|")} ${path}`;
}

/** Returns the text by which people know a job: its name, title or route. Undefined if the job has only its IDs. */
export function jobLabel(job: {
  readonly name?: string | undefined;
  readonly title?: string | undefined;
  readonly route?: Route | undefined;
}): string | undefined {
  return job.name ?? job.title ?? (job.route && routeText(job.route));
}

/** Returns the names of a route's parameters. */
export function parameterNames({ segments }: Pick<Route, "segments">): readonly string[] {
  return segments.flatMap((segment) => (segment.kind === "literal" ? [] : segment.name));
}

/** Writes a route's path without the names of its parameters: paths of one shape match the same requests. */
export function routeShape({ segments }: Route): string {
  const shapes = segments.map((segment) => (segment.kind === "literal" ? segment.text : `{${segment.kind}}`));
  return `/${shapes.join("/")}`;
}

/**
 * Returns the index of a job whose configuration names no index. The hashed text has the job's methods, sorted and
 * joined by `|`, then a space and the job's path. The index is the first 31 bits of the text's SHA-256, with the top
 * bit of the u32 set.
 */
export function routeJobIndex({ methods, path }: Route): number {
  const text = `${[...methods].sort().join("|")} ${path}`;
  const first = createHash("sha256").update(text).digest().readUInt32BE(0);
  return 2 ** 31 + (first >>> 1);
}
