// Starts on damaged copies of a store, one after the other, and prints what became of each. Some damage ends the process.
import { readFileSync, writeSync } from "node:fs";
import { randomFrom } from "../../helpers/seeded-random.ts";
import { type Files, fateOf } from "./damage.ts";
import { NEVER_SILENT, NOT_ALWAYS_SEEN } from "./damage-faults.ts";

const [folder, name = "", seed, first, trials] = process.argv.slice(2);
const fault = { ...NEVER_SILENT, ...NOT_ALWAYS_SEEN }[name];
if (fault === undefined)
  throw new Error("expected a folder, a fault, a seed, and the first and number of its trials");
const read = (file: keyof Files | "content") => readFileSync(`${folder}/${file}`);
const files = { database: read("database"), log: read("log"), owner: read("owner") };
for (let trial = Number(first); trial < Number(trials); trial++) {
  const damaged = fault.damage(files, randomFrom(Number(seed) * 1_000_003 + trial));
  writeSync(1, `${await fateOf({ ...files, ...damaged }, read("content").toString())}\n`);
}
