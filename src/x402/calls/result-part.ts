/** Part of a result that a request selects. Both ends of a range are included. */
export type ResultPart =
  | { readonly kind: "whole" }
  | { readonly kind: "not_modified" }
  | { readonly kind: "range"; readonly first: number; readonly last: number }
  | { readonly kind: "unsatisfiable" };

const WHOLE: ResultPart = { kind: "whole" };
const UNSATISFIABLE: ResultPart = { kind: "unsatisfiable" };
/** One range. A request for several is answered with the whole, which RFC 9110 §14.2 allows. */
const RANGE = /^bytes=[ \t]*(?:(?<first>\d{1,15})-(?<last>\d{1,15})?|-(?<suffix>\d{1,15}))[ \t]*$/i;
const ENTITY_TAG = /(?:W\/)?("[^"]*")/g;

/** Headers of a request by which it selects a part. */
interface Conditions {
  readonly "if-none-match"?: string | undefined;
  readonly "if-range"?: string | string[] | undefined;
  readonly range?: string | undefined;
}

/** Evaluates If-None-Match, If-Range and Range in the order of RFC 9110 §13.2.2. A header that breaks the grammar is ignored. */
export function selectPart(
  headers: Conditions,
  { etag, size }: { readonly etag: string; readonly size: number },
): ResultPart {
  const { "if-none-match": known, "if-range": unchanged, range = "" } = headers;
  if (known !== undefined && isKnown(known, etag)) return { kind: "not_modified" };
  const { first, last, suffix } = RANGE.exec(range)?.groups ?? {};
  const isChanged = unchanged !== undefined && (unchanged !== etag || etag.startsWith("W/"));
  if (isChanged || (first === undefined && suffix === undefined)) return WHOLE;
  if (first === undefined) {
    const length = Math.min(Number(suffix), size);
    return length === 0 ? UNSATISFIABLE : { kind: "range", first: size - length, last: size - 1 };
  }
  if (Number(last) < Number(first)) return WHOLE;
  if (Number(first) >= size) return UNSATISFIABLE;
  return { kind: "range", first: Number(first), last: Math.min(Number(last ?? size), size - 1) };
}

/** Compares weakly. */
function isKnown(known: string, etag: string): boolean {
  if (known.trim() === "*") return true;
  const opaque = etag.replace(/^W\//, "");
  return [...known.matchAll(ENTITY_TAG)].some(([, tag]) => tag === opaque);
}
