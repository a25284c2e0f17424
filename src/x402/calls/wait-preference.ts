import type { HttpRequest } from "../../http/request.ts";

/** The longest that a request is held; whoever asks for more waits this long. */
const MAX_WAIT_SECS = 60;

// The grammar of RFC 7240 §2, on the words of RFC 9110 §5.6.
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const QUOTED = String.raw`"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"`;
const VALUE = String.raw`[ \t]*=[ \t]*(?:${TOKEN}|${QUOTED})`;
const PARAMETERS = String.raw`(?:[ \t]*;(?:[ \t]*${TOKEN}(?:${VALUE})?)?)*`;
const PREFERENCE = new RegExp(
  String.raw`(?<name>${TOKEN})(?:[ \t]*=[ \t]*(?<value>${TOKEN}|${QUOTED}))?${PARAMETERS}[ \t]*`,
  "y",
);
const BETWEEN = /(?:[ \t]*,)*[ \t]*/y;

/**
 * How long the client would wait for its job's result: `Prefer: wait=N` of RFC 7240 §4.3, N in seconds.
 * @returns 1 to 60; undefined when there is no such preference, it makes no sense, or the header
 *   does not follow the grammar: a preference never makes a request fail
 */
export function waitSecs(request: HttpRequest): number | undefined {
  const value = firstPreference(request.headerValues("prefer").join(","), "wait");
  const [, digits] = /^"?(\d+)"?$/.exec(value ?? "") ?? [];
  const seconds = Number(digits);
  return seconds >= 1 ? Math.min(seconds, MAX_WAIT_SECS) : undefined;
}

/** The value of a preference, still quoted if it was. Of several with one name the first counts (RFC 7240 §2). */
function firstPreference(header: string, wanted: string): string | undefined {
  const found: (string | undefined)[] = [];
  let position = skip(BETWEEN, header, 0);
  while (position < header.length) {
    PREFERENCE.lastIndex = position;
    const preference = PREFERENCE.exec(header);
    if (preference === null) return undefined;
    position = PREFERENCE.lastIndex;
    if (position < header.length && header[position] !== ",") return undefined;
    if (preference.groups?.name?.toLowerCase() === wanted) found.push(preference.groups.value);
    position = skip(BETWEEN, header, position);
  }
  return found[0];
}

function skip(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  return pattern.test(text) ? pattern.lastIndex : from;
}
