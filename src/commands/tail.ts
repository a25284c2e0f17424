import { once } from "node:events";
import type { Command } from "commander";
import { callOperator, jsonLine, type OperatorSelection } from "./operator-client.ts";
import { addOperatorOptions } from "./options.ts";

export function addTailCommand(program: Command): void {
  addOperatorOptions(program.command("tail"))
    .description("Print the events of a running jobgate as JSON lines. Runners still get every JobCall.")
    .addHelpText("after", "\nExample:\n  $ jobgate tail --target 127.0.0.1:8405")
    .action(tail);
}

async function tail(options: OperatorSelection): Promise<void> {
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  // The reader of the pipe has gone, for example `head`.
  process.stdout.once("error", stop);
  try {
    await callOperator(options, async (client) => {
      try {
        let watching = false;
        for await (const { event, missed } of client.tail({}, { signal: stopping.signal })) {
          // The first message is empty, and so are those that only keep the stream alive.
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

  /** Waits for a slow reader, so that nothing piles up here: jobgate drops and counts the events that do not fit. */
  async function print(line: string): Promise<void> {
    if (process.stdout.write(`${line}\n`) || stopping.signal.aborted) return;
    await once(process.stdout, "drain", { signal: stopping.signal });
  }
}
