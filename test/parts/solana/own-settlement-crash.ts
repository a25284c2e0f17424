import { expect } from "vitest";
import { until } from "../../helpers/until.ts";
import { PRICE, type SolanaParts } from "./harness.ts";
import { settledHere } from "./own-settlement.ts";
import { startRestartedShop } from "./restarted-shop.ts";

/** Points of a settlement at which a process is killed. */
export const SETTLER_POINTS = [
  "transactions/before-journal",
  "transactions/after-journal",
  "transactions/after-broadcast",
] as const;

/** Kills a jobgate at a point of a settlement, and checks that the payment is settled and sold once after its restart. */
export async function expectOnceThrough(
  parts: SolanaParts,
  point: (typeof SETTLER_POINTS)[number],
): Promise<void> {
  const edit = (config: string) => settledHere(config, parts);
  const restarted = await startRestartedShop(parts, { crashAt: point, edit });
  const { shop, life } = restarted;
  const before = (await parts.cluster.balanceOf(parts.seller, parts.mint)) ?? 0n;
  const landed = parts.cluster.landed.length;
  const payment = await shop.sign();
  const lost = shop.send(payment).catch(() => undefined);
  await life.exited;
  expect(await lost).toBeUndefined();
  expect(parts.cluster.landed.length - landed).toBe(point === "transactions/after-broadcast" ? 1 : 0);

  const runner = await restarted.startAgain();
  // The restarted process sends without being asked.
  await until(() => parts.cluster.landed.length === landed + 1, { waitMs: 20_000 });
  await until(async () => (await shop.send(payment)).status === 202, { waitMs: 30_000 });
  await runner.waitFor(1);
  expect(runner.calls.length).toBe(1);
  expect(parts.cluster.landed.length).toBe(landed + 1);
  expect(await parts.cluster.balanceOf(parts.seller, parts.mint)).toBe(before + PRICE);
}
