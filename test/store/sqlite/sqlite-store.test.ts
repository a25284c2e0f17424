import { expect } from "vitest";
import { inspectSqlite } from "../../../src/store/sqlite/inspect.ts";
import { describeStoreContract } from "../store-contract.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

describeStoreContract("The SQLite store", async (options) => {
  const opened = await openInTempFolder(options);
  const { dispose } = opened;
  // Whatever a test did, the rows belong together.
  opened.dispose = async () => {
    const inspection = inspectSqlite(opened.path);
    const problems = await inspection.check();
    await inspection.close();
    await dispose();
    expect(problems).toEqual([]);
  };
  return opened;
});
