import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { getPromtool } from "./promtool.ts";

const RULES = fileURLToPath(new URL("alert-rules.yml", import.meta.url));

it("Alerts fire for a first event and for one gateway of several, and not for old events", async () => {
  const promtool = await getPromtool();
  await expect(promisify(execFile)(promtool, ["test", "rules", RULES])).resolves.toMatchObject({
    stderr: "",
  });
});
