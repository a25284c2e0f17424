import { styleText } from "node:util";

/** Prints numbered steps to stdout, in color on a terminal. */
export interface Narrator {
  /** Starts a numbered step. */
  step(title: string): void;
  /** Prints a line of the step. */
  say(line: string): void;
  /** Prints names and values in columns. */
  table(rows: Readonly<Record<string, string>>): void;
  /** Prints a check that passed. */
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
