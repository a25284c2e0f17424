import { expect, test } from "vitest";
import { WorkLimit } from "../../src/http/work-limit.ts";

const BOUNDS = { perClient: 2, total: 3, reason: "Too much at once" };
const REFUSED = { code: "rate_limited", message: "Too much at once: try again in 1 s." };

test("Work is bounded for each client and in all, until it ends, well or not", async () => {
  const limit = new WorkLimit();
  const ends: ((error?: Error) => void)[] = [];
  const work = (client: string) =>
    limit.run(
      client,
      BOUNDS,
      () =>
        new Promise<void>((resolve, reject) => {
          ends.push((error) => (error ? reject(error) : resolve()));
        }),
    );
  const [first, second] = [work("a"), work("a")];
  await expect(work("a")).rejects.toMatchObject(REFUSED);
  const third = work("b");
  await expect(work("c")).rejects.toMatchObject(REFUSED);
  ends[0]?.();
  ends[1]?.(new Error("broken"));
  await first;
  await expect(second).rejects.toThrow("broken");
  const again = [work("a"), work("c")];
  await expect(work("d")).rejects.toMatchObject(REFUSED);
  for (const end of ends) end();
  await Promise.all([third, ...again]);
});
