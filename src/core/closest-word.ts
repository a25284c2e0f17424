import { closestMatch } from "leven";

/** Returns the word that a misspelt word is most like, letter case aside. */
export function closestWord(word: string, known: readonly string[]): string | undefined {
  const lower = known.map((one) => one.toLowerCase());
  const maxDistance = Math.ceil(word.length / 3);
  const closest = closestMatch(word.toLowerCase(), lower, { maxDistance });
  return closest === undefined ? undefined : known[lower.indexOf(closest)];
}
