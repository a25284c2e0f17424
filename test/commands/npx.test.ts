import { once } from "node:events";
import { expect, test } from "vitest";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";

test("A command that npx runs ends when npx is stopped, which passes no signal on", async () => {
  const program = [process.execPath, ...jobgateProgram()].map((part) => `'${part}'`).join(" ");
  // The shell stands for npx. A further command keeps the shell from becoming the program.
  const npx = spawnTethered({
    command: "sh",
    args: ["-c", `${program} run-each --runner 127.0.0.1:9 -- cat; true`],
    env: { ...process.env, npm_command: "exec" },
  });
  await once(npx.stderr, "data");
  npx.stdout.resume();
  npx.stderr.resume();
  // Both pipes are closed when the program has ended as well.
  const closed = once(npx, "close");
  npx.kill("SIGTERM");
  await closed;
  expect(npx.signalCode).toBe("SIGTERM");
});
