import type { Command } from "commander";
import type { StoreInfo, StoreInspection } from "../store/contract/inspection.ts";
import { Refusal, refusalOfMistakes } from "./input.ts";
import { addCommand, configOption, jsonOption } from "./options.ts";
import { fields, table } from "./output.ts";

interface StoreSelection {
  readonly config: string;
}

export function addTo(program: Command): void {
  const store = addCommand(program, {
    name: "store",
    description: "Look at the store, or copy it, also while jobgate runs.",
    example: "store backup jobgate-backup.db",
  });

  addCommand(store, {
    name: "info",
    description: "Show kind, place, size, schema version, and what is in it.",
    example: "store info",
    takes: [configOption(), jsonOption("print JSON")],
  }).action(info);

  addCommand(store, {
    name: "check",
    description:
      "Check the file, the journal's balance, and that rows belong together; exit 1 if something is wrong.",
    example: "store check",
    takes: [configOption()],
  }).action(check);

  addCommand(store, {
    name: "backup",
    description: "Write a consistent copy of an SQLite store to a new file.",
    example: "store backup /backups/jobgate-$(date +%F).db",
    takes: [configOption()],
  })
    .argument("<file>", "the new file")
    .action(backup);
}

function info(options: StoreSelection & { readonly json?: boolean }): Promise<void> {
  return inspecting(options, async (store) => {
    const about = await store.info();
    console.log(options.json ? JSON.stringify(about) : infoText(about));
  });
}

function check(options: StoreSelection): Promise<void> {
  return inspecting(options, async (store) => {
    const { place } = await store.info();
    const problems = await store.check();
    for (const problem of problems) console.log(`${place}: ${problem}`);
    if (problems.length > 0) throw new Refusal([]);
    console.log(`${place}: ok`);
  });
}

function backup(file: string, options: StoreSelection): Promise<void> {
  return inspecting(options, async (store) => {
    await store.backup(file);
    console.log(`${file} written`);
  });
}

/** Opens the store of the configuration, from which only the store's place is read. @throws Refusal with the reason */
async function inspecting(
  { config }: StoreSelection,
  use: (store: StoreInspection) => Promise<void>,
): Promise<void> {
  const [{ loadStorePlace }, { inspectStore }] = await Promise.all([
    import("../load-config.ts"),
    import("../open-store.ts"),
  ]);
  const loaded = await loadStorePlace({ path: config, env: process.env });
  if (!loaded.ok) throw await refusalOfMistakes(loaded.mistakes);
  let store: StoreInspection | undefined;
  try {
    store = await inspectStore(loaded.store);
    await use(store);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal([error instanceof Error ? error.message || String(error) : String(error)]);
  } finally {
    await store?.close();
  }
}

function infoText({ kind, place, bytes, schemaVersion, rows }: StoreInfo): string {
  const about = fields([
    ["kind", kind],
    ["place", place],
    ["size", `${(bytes / 1024 / 1024).toFixed(1)} MiB`],
    ["schema version", String(schemaVersion)],
  ]);
  if (rows === undefined)
    return `${about}\n\nAnother version of jobgate made it. Serve the store with this version, or run this command with the other one.`;
  const lines = rows.map(({ name, count, oldest }) => [
    name,
    String(count),
    oldest === null ? "" : new Date(oldest).toISOString(),
  ]);
  return `${about}\n\n${table(["", "count", "oldest"], lines)}`;
}
