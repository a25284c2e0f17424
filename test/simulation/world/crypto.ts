/* Takes the place of `node:crypto`: the same, with random bytes from the seed. */
import { simulation } from "./simulation.ts";

export * from "node:crypto";

export function randomBytes(size: number): Buffer {
  const run = simulation();
  return Buffer.from(Array.from({ length: size }, () => Math.floor(run.random("randomBytes") * 256)));
}

export function randomInt(below: number): number {
  return Math.floor(simulation().random("randomInt") * below);
}

export function randomUUID(): string {
  const hex = randomBytes(16).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
}
