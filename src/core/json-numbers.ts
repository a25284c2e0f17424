const NUMBER = /-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?/y;
/** Matches each text that may have a number that is rounded to an integer. */
const SUSPECT = /[0-9.]{16}|[0-9][eE]/;

/**
 * Checks whether a number in the grammar of JSON, such as 1.00000000000000000001, is an integer only because a double has too few
 * digits. A program that reads more digits sees another number.
 */
export function roundsToInteger(text: string): boolean {
  NUMBER.lastIndex = 0;
  const found = NUMBER.exec(text);
  return found !== null && isRounded(found);
}

/** Checks whether a JSON text has such a number. */
export function hasRoundedInteger(json: string): boolean {
  if (!SUSPECT.test(json)) return false;
  for (let at = 0; at < json.length; at++) {
    if (json[at] === '"') {
      at = endOfString(json, at);
      continue;
    }
    NUMBER.lastIndex = at;
    const found = NUMBER.exec(json);
    if (found === null) continue;
    if (isRounded(found)) return true;
    at = NUMBER.lastIndex - 1;
  }
  return false;
}

/** Returns the index of the quote that ends a string. */
function endOfString(json: string, start: number): number {
  let at = start + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === "\\" ? 2 : 1;
  return at;
}

function isRounded([text, whole = "", fraction = "", exponent = "0"]: RegExpExecArray): boolean {
  if (!Number.isInteger(Number(text))) return false;
  const digits = whole + fraction;
  let end = digits.length;
  while (end > 0 && digits[end - 1] === "0") end--;
  // A number whose digits are all zeros is 0.
  return end > 0 && Number(exponent) - fraction.length + digits.length - end < 0;
}
