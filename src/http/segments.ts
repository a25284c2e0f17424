/** A path without what proxies and servers read in several ways: only visible ASCII characters, and no fragment. */
const RAW_PATH = /^\/[\x21\x22\x24-\x7e]+$/;
/** Characters that a segment cannot have, encoded or not: some readers take them as the end of a segment. */
const AMBIGUOUS = /[/\\;\p{Cc}]/u;
/** Characters that a URL can have in a segment unencoded, and that encodeURIComponent encodes. */
const UNENCODED = /%(?:24|26|2B|2C|3A|3D|40)/g;

/**
 * Decodes the segments of a raw path, each once. Returns undefined for a path that can be read in more than one way:
 * empty segments and dot segments, encoded slashes and backslashes, semicolons, control characters, and what is no UTF-8. After a
 * slash at the end, the last segment is empty.
 */
export function decodeSegments(path: string): readonly string[] | undefined {
  if (!RAW_PATH.test(path)) return undefined;
  const segments = path.slice(1).split("/");
  for (const [i, segment] of segments.entries()) {
    const text = segment.includes("%") ? decoded(segment) : segment;
    if (text === "" && i > 0 && i === segments.length - 1) continue;
    if (text === undefined || text === "" || text === "." || text === ".." || AMBIGUOUS.test(text))
      return undefined;
    segments[i] = text;
  }
  return segments;
}

/** Encodes segments as a path, in which each has one form. */
export function encodeSegments(segments: readonly string[]): string {
  return segments
    .map((segment) => `/${encodeURIComponent(segment).replace(UNENCODED, decodeURIComponent)}`)
    .join("");
}

/** @returns undefined for malformed percent-encoding, and for bytes that are not UTF-8 in its shortest form */
function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
