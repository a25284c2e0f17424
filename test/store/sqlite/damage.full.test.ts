import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { processEnded, spawnTethered } from "../../../src/node/tethered-process.ts";
import { bundledScript } from "../../helpers/bundle.ts";
import { type Fate, fateOf, fillStore, type SoundStore } from "./damage.ts";
import { type Fault, NEVER_SILENT, NOT_ALWAYS_SEEN } from "./damage-faults.ts";

/** Positions at which each fault is tried, and where they begin. If it is set, the table of docs/how-we-test.md is printed. */
const TRIALS = Number(process.env.JOBGATE_DAMAGE_TRIALS ?? 12);
const SEED = process.env.JOBGATE_DAMAGE_SEED ?? "1";

const CHILD = fileURLToPath(new URL("./damage-child.ts", import.meta.url));

let folder: string;
let sound: Readonly<Record<"stopped" | "killed", SoundStore>>;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-sound-"));
  sound = await fillStore();
});
afterAll(() => rm(folder, { recursive: true }));

/** Tries a fault in processes of its own. @returns how often it had each fate */
async function measure(name: string, { of }: Fault): Promise<Record<Fate, number>> {
  const { files, content } = sound[of];
  for (const [file, bytes] of Object.entries({ ...files, content }))
    await writeFile(join(folder, file), bytes);
  const fates: Record<Fate, number> = { refused: 0, found: 0, fails: 0, harmless: 0, silent: 0 };
  for (let trial = 0; trial < TRIALS; ) {
    const args = [bundledScript(`import "${CHILD}";`), folder, name, SEED, String(trial), String(TRIALS)];
    const child = spawnTethered({ command: process.execPath, args });
    let printed = "";
    child.stdout.on("data", (text) => {
      printed += text;
    });
    child.stderr.resume();
    await Promise.all([processEnded(child), new Promise((resolve) => child.stdout.once("close", resolve))]);
    const ended = printed.split("\n").slice(0, -1) as Fate[];
    for (const fate of ended) fates[fate]++;
    trial += ended.length;
    if (trial < TRIALS) {
      fates.fails++;
      trial++;
    }
  }
  if (process.env.JOBGATE_DAMAGE_TRIALS !== undefined)
    console.log(`| ${[name, ...Object.values(fates)].join(" | ")} |`);
  return fates;
}

test("Files that were not damaged are sound, after a stop and after a kill", async () => {
  for (const { files, content } of [sound.stopped, sound.killed])
    expect(await fateOf(files, content)).toBe("harmless");
});

test.each(Object.entries(NEVER_SILENT))(
  "jobgate does not start, or its check tells, on %s",
  async (name, fault) => {
    const { refused, found } = await measure(name, fault);
    expect(refused + found).toBe(TRIALS);
  },
);

test.each(Object.entries(NOT_ALWAYS_SEEN))("Not all is seen of %s", async (name, fault) => {
  const fates = await measure(name, fault);
  expect(Object.values(fates).reduce((sum, count) => sum + count)).toBe(TRIALS);
});
