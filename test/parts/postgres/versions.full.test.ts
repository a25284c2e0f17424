import { expect, onTestFinished, test } from "vitest";
import { OLDEST_POSTGRES_PLATFORM, startPostgres } from "../../helpers/postgres.ts";
import { describeDifference, runSeed, shrink } from "../../store/differential/run.ts";
import { allStores } from "./compared.ts";

const OPERATIONS = 500;

const isThere = `${process.platform}-${process.arch}` === OLDEST_POSTGRES_PLATFORM;

// The other tests run on the newest version.
test.runIf(isThere)(
  "The oldest supported Postgres does the same as SQLite for random operations",
  async () => {
    const oldest = await startPostgres({ version: "oldest" });
    onTestFinished(() => oldest.stop());
    const compared = allStores(oldest);
    const { difference } = await runSeed(compared, 1, OPERATIONS);
    expect(difference && describeDifference(await shrink(compared, difference))).toBeUndefined();
    const [row] = await oldest.query<{ server_version: string }>(
      await oldest.createDatabase(),
      "SHOW server_version",
    );
    expect(row?.server_version).toMatch(/^14\./);
  },
);
