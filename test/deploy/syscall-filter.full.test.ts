import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { jobgateProgram } from "../helpers/jobgate-program.ts";
import { startRunner } from "../helpers/runner.ts";
import { testFolder } from "../helpers/test-folder.ts";

const UNIT = fileURLToPath(new URL("../../deploy/systemd/jobgate.service", import.meta.url));
const FILTERED = ["python3", fileURLToPath(new URL("under-unit-filter.py", import.meta.url)), UNIT];
const CONFIG = `
service_id = 1
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "unix:runner.sock"
[operator]
bind_address = "127.0.0.1:0"
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/alerts"
job_id = 30
`;

const run = promisify(execFile);
/** Rejects when the command fails, or is killed. */
const filtered = (...command: string[]) => {
  const [program = "", ...args] = [...FILTERED, ...command];
  return run(program, args);
};

beforeAll(async () => {
  await filtered("true").catch((cause: unknown) => {
    throw new Error("Trying the unit's filter takes Python 3, systemd-analyze and libseccomp.so.2", {
      cause,
    });
  });
});

describe("Under the system call filter of the systemd unit", () => {
  it("A forbidden system call kills the process", async () => {
    const reboot = ["-c", "import ctypes; ctypes.CDLL(None).reboot(0)"];
    await expect(filtered("python3", ...reboot)).rejects.toMatchObject({ signal: "SIGSYS" });
  });

  it("jobgate checks its configuration", async () => {
    const folder = await testFolder();
    const path = join(folder, "jobgate.toml");
    await writeFile(path, CONFIG);
    await expect(
      filtered(process.execPath, ...jobgateProgram("build"), "check", "-c", path),
    ).resolves.toMatchObject({ stderr: "" });
  });

  it("jobgate serves a webhook to a runner, reloads and stops", async () => {
    const jobgate = await startJobgate({ config: CONFIG, from: "build", through: FILTERED });
    try {
      const runner = await startRunner({
        address: `unix:${join(jobgate.folder, "runner.sock")}`,
        handle: () => ({ body: Buffer.from("done") }),
      });
      const sent = await fetch(`${jobgate.webhooksUrl}/hooks/alerts`, { method: "POST", body: "an alert" });
      expect(sent.status).toBe(202);
      await expect.poll(() => runner.done).toHaveLength(1);
      await runner.stop();
      await jobgate.reload(CONFIG.replace("/hooks/alerts", "/hooks/others"));
      const other = () => fetch(`${jobgate.webhooksUrl}/hooks/others`, { method: "POST", body: "another" });
      await expect.poll(async () => (await other()).status).toBe(202);
      jobgate.kill();
      expect(await jobgate.exited).toEqual({ code: 0, signal: null });
    } finally {
      await jobgate.stop();
    }
  });
});
