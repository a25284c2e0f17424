import { expect, test } from "vitest";
import { a2aTable } from "../../../src/parts/a2a/config.ts";
import { configOf, loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";

test("There is an agent only where enabled is true", async () => {
  const own = async (a2a: string) => a2aTable.in(await configOf(`${X402}${TOKEN}${a2a}`));
  expect(await own("")).toBeUndefined();
  expect(await own("[a2a]\n")).toBeUndefined();
  expect(await own("[a2a]\nenabled = true\n")).toEqual({ enabled: true });
});

test("A table without [x402] is a warning", async () => {
  const result = await loadFiles("[a2a]\nenabled = true\n");
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  expect(result.warnings).toContainEqual(
    expect.objectContaining({ keyPath: "a2a", message: "is not used, because there is no [x402]" }),
  );
});
