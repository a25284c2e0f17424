import { expect } from "vitest";
import type { Finding } from "../../../src/store/contract/inspection.ts";
import { findProblems, problemTexts } from "../../../src/store/inspection-queries.ts";
import { openToRead } from "../../../src/store/sqlite/driver.ts";
import { describeStoreContract } from "../store-contract.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

describeStoreContract("The SQLite store", async (options) => {
  const opened = await openInTempFolder(options);
  const { dispose } = opened;
  // Whatever a test did, the rows belong together.
  opened.dispose = async () => {
    const database = openToRead(opened.path, "mode=ro");
    const problems = database.prepare<Finding>(findProblems("")).all([]);
    database.close();
    await dispose();
    expect(problemTexts(problems)).toEqual([]);
  };
  return opened;
});
