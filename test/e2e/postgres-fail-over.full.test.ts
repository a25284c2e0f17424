import { describe, onTestFinished, test } from "vitest";
import { howMany } from "../helpers/how-many.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startPostgresProxy } from "../helpers/postgres-proxy.ts";
import { startSynchronousStandby } from "../helpers/postgres-standby.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidParts } from "./paid-parts.ts";
import { withoutItsPrimary } from "./postgres-site.ts";

const ROUNDS = howMany(2, 20);

const parts = startBeforeAll(() => startPaidParts());
/** A primary and its synchronous standby, and the URL of a database that lists both. */
async function startPair() {
  const primary = await startPostgres();
  onTestFinished(() => primary.stop());
  const url = await primary.createDatabase();
  const standby = await startSynchronousStandby(primary, url);
  onTestFinished(() => standby.stop());
  const proxy = await startPostgresProxy(primary.port);
  onTestFinished(() => proxy.stop());
  const { port } = new URL(proxy.urlOf(url));
  const both = url.replace(/@[^/]*/, `@127.0.0.1:${port},127.0.0.1:${standby.port}`);
  return { primary, standby, proxy, url: `${both}?target_session_attrs=read-write` };
}
type Pair = Awaited<ReturnType<typeof startPair>>;

/** Takes the primary away under load, promotes the standby, and checks what was promised. */
async function failOver(round: string, pair: Pair, takeAway: () => Promise<void> | void): Promise<void> {
  await withoutItsPrimary({ parts, url: pair.url, round, takeAway, replacePrimary: pair.standby.promote });
}

describe("A fail-over to a synchronous standby loses and doubles nothing, and writes resume within 5 s of its promotion", () => {
  test.each(Array.from({ length: ROUNDS }, (_, index) => index + 1))(
    "After a kill -9 of the primary, round %i",
    async (number) => {
      const pair = await startPair();
      await failOver(`kill ${number}`, pair, async () => {
        await pair.primary.kill("SIGKILL");
        pair.proxy.cut();
      });
    },
  );

  test("While the primary is silent, its connections still open", async () => {
    const pair = await startPair();
    await failOver("silence", pair, () => pair.proxy.setStalled(true));
  });
});
