import { once } from "node:events";
import { text } from "node:stream/consumers";
import { beforeAll, expect, test } from "vitest";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";
import { startOperator, TOKEN } from "../helpers/operator.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { paidCall, paymentIntent } from "../store/store-fixtures.ts";

const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));

/** Command that waits for the reader of its output. The other commands print without waiting. */
const EXPORT = "payments export --from 1d --to 2100-01-01 --format jsonl";

beforeAll(async () => {
  // More than a page, and more than a pipe holds.
  for (let round = 0; round < 6; round++) await Promise.all(Array.from({ length: 100 }, () => sell()));
});

async function sell(): Promise<void> {
  const intent = paymentIntent(++sold);
  await jobgate.store.beginPayment(intent, paidCall());
  await jobgate.store.settlePayment(intent.key, JSON.stringify({ transaction: `0x${sold}` }), "9184");
}
let sold = 0;

/** Runs a command as a process, through a shell that can redirect its output. */
function start(command: string, redirection: string) {
  const args = command.split(" ");
  return spawnTethered({
    command: "/bin/sh",
    args: ["-c", `exec "$@" ${redirection}`, "sh", process.execPath, ...jobgateProgram(), ...args],
    env: { PATH: process.env.PATH, JOBGATE_OPERATOR_TOKEN: TOKEN, JOBGATE_TARGET: jobgate.operator.address },
  });
}

async function ended(child: ReturnType<typeof start>) {
  const [[code], stderr] = await Promise.all([once(child, "exit"), text(child.stderr)]);
  return { code, stderr: stderr.replace(/^The period is not over.*\n/, "") };
}

test.each([EXPORT, "payments list --all --json"])(
  "jobgate %s ends quietly when the reader of its pipe leaves",
  async (command) => {
    const child = start(command, "");
    child.stdout.destroy();
    expect(await ended(child)).toEqual({ code: 0, stderr: "" });
  },
);

test.each([EXPORT, "payments totals"])(
  "jobgate %s prints a sentence and exits with 1 when the disk is full",
  async (command) => {
    const { code, stderr } = await ended(start(command, "> /dev/full"));
    expect(code).toBe(1);
    expect(stderr).toMatch(/^Standard output cannot be written: [^\n]*no space left on device[^\n]*\n$/);
  },
);
