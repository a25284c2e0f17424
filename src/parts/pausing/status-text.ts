import { type Pausable, timeText } from "../../commands/operator-client.ts";
import { programName } from "../../commands/output.ts";
import { addPartText, type PartText } from "../../commands/part-text.ts";
import { printable } from "../../core/printable.ts";

/** Lines about pauses in the commands that print totals. */
const TEXT: PartText = {
  problems: ({ paused }) =>
    paused.map((one) => {
      const { by = "", note = "", since, refusesAccepts = false } = one.pause ?? {};
      const why = note === "" ? "" : ` (${printable(note)})`;
      const accepts = refusesAccepts ? "; new requests are refused" : "";
      const resume = `${programName()} resume ${one.key}`;
      return `${pausableText(one)} is paused since ${timeText(since)} by ${printable(by)}${why}${accepts}: ${resume}`;
    }),
};

export function addTo(): void {
  addPartText(TEXT);
}

/** Returns kind and key, with the name if there is one. */
export function pausableText({ kind, key, name }: Pick<Pausable, "kind" | "key" | "name">): string {
  return `${kind} ${printable(key)}${name === "" ? "" : ` (${printable(name)})`}`;
}
