import { closestMatch } from "leven";

/** Returns the word that a misspelt or shortened word is most like, letter case aside. */
export function closestWord(word: string, known: readonly string[]): string | undefined {
  const lower = known.map((one) => one.toLowerCase());
  const maxDistance = Math.ceil(word.length / 3);
  const begun = lower.filter((one) => one.startsWith(word.toLowerCase()));
  const closest = begun.length === 1 ? begun[0] : closestMatch(word.toLowerCase(), lower, { maxDistance });
  return closest === undefined ? undefined : known[lower.indexOf(closest)];
}
