/** Ends a command with exit code 1: what it was asked for cannot be done, for reasons that are told line by line. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}
