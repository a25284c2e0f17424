import { once } from "node:events";
import type { Command } from "commander";
import { jsonLine } from "../operator/presentation.ts";
import { addOperatorOptions, askOperator, type OperatorOptions } from "./operator-api.ts";

export function addTailCommand(program: Command): void {
  addOperatorOptions(program.command("tail"))
    .description(
      "Watch what flows through a running jobgate, as JSON lines. Takes no work away from runners.",
    )
    .addHelpText("after", "\nExample:\n  $ jobgate tail --target 127.0.0.1:8405")
    .action(tail);
}

async function tail(options: OperatorOptions): Promise<void> {
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  // Whoever reads the lines has seen enough, as `head` does.
  process.stdout.once("error", stop);
  try {
    await askOperator(options, async (client) => {
      try {
        let watching = false;
        for await (const { event, missed } of client.tail({}, { signal: stopping.signal })) {
          // The first message has nothing in it, and so have others that only show that the stream is alive.
          if (!watching) console.error("watching; end with Ctrl-C");
          watching = true;
          if (missed > 0n) await print(`{"missed":"${missed}"}`);
          if (event !== undefined) await print(jsonLine(event));
        }
      } catch (error) {
        if (!stopping.signal.aborted) throw error;
      }
    });
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop);
    process.stdout.off("error", stop);
  }

  /** Waits for a reader that is slow: jobgate then counts what it misses, and nothing piles up here. */
  async function print(line: string): Promise<void> {
    if (process.stdout.write(`${line}\n`) || stopping.signal.aborted) return;
    await once(process.stdout, "drain", { signal: stopping.signal });
  }
}
