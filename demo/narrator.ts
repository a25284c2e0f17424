import { styleText } from "node:util";

/** Tells on stdout what happens, in numbered steps; in color only on a terminal. */
export interface Narrator {
  /** Begins a numbered step. */
  step(title: string): void;
  /** A fact within the step. */
  say(line: string): void;
  /** Names and values, in columns. */
  table(rows: Readonly<Record<string, string>>): void;
  /** A promise that was checked and held. */
  check(line: string): void;
}

export function makeNarrator(): Narrator {
  const isTerminal = process.stdout.isTTY && process.env.NO_COLOR === undefined;
  const paint = (style: "bold" | "cyan" | "green", text: string): string =>
    isTerminal ? styleText(style, text) : text;
  let steps = 0;
  return {
    step(title) {
      steps++;
      console.log(`\n${paint("bold", `${steps}. ${title}`)}`);
    },
    say(line) {
      console.log(`   ${line}`);
    },
    table(rows) {
      const width = Math.max(...Object.keys(rows).map((name) => name.length));
      for (const [name, value] of Object.entries(rows)) {
        console.log(`     ${paint("cyan", name.padEnd(width))}  ${value}`);
      }
    },
    check(line) {
      console.log(`   ${paint("green", "✓")} ${line}`);
    },
  };
}
