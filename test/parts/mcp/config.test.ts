import { expect, test } from "vitest";
import { mcpTable } from "../../../src/parts/mcp/config.ts";
import { configOf, loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";

test("There is a server only where enabled is true", async () => {
  const own = async (mcp: string) => mcpTable.in(await configOf(`${X402}${TOKEN}${mcp}`));
  expect(await own("")).toBeUndefined();
  expect(await own('[mcp]\nallowed_origins = ["*"]\n')).toBeUndefined();
  expect(await own("[mcp]\nenabled = true\n")).toEqual({ allowedOrigins: [] });
});

test("A table without [x402] is a warning", async () => {
  const result = await loadFiles("[mcp]\nenabled = true\n");
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  expect(result.warnings).toContainEqual(
    expect.objectContaining({ keyPath: "mcp", message: "is not used, because there is no [x402]" }),
  );
});
