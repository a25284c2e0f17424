import type { Route } from "../../core/route.ts";
import { decodeSegments, encodeSegments } from "../../http/segments.ts";

/** Entry whose route matches a path. */
export interface Found<Entry> {
  readonly entry: Entry;
  readonly route: Route;
  /** Decoded values of the route's parameters. That of `{name...}` has its segments joined by slashes. */
  readonly params: readonly (readonly [name: string, value: string])[];
}

/** One segment of the routes that begin alike. */
class Node<Entry> {
  readonly literals = new Map<string, Node<Entry>>();
  one: Node<Entry> | undefined;
  readonly ending: { readonly route: Route; readonly entry: Entry }[] = [];
  /** Those whose last segment takes all that are left. */
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

  /** Finds what a raw path matches, the best match first: a literal before `{name}` before `{name...}`. */
  find(path: string): readonly Found<Entry>[] {
    const segments = decodeSegments(path);
    if (segments === undefined) return [];
    const found: Found<Entry>[] = [];
    collect(this.#root, segments, 0, found);
    return found;
  }
}

/** Encodes a matched path again, so that each path has one form. */
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
  // Only a route that ends in a slash matches a path that does.
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
