import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { runProgram } from "../../src/commands/program.ts";
import { runJobgate } from "./run-jobgate.ts";

let printed: { stdout: string; stderr: string };

beforeEach(() => {
  printed = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    vi.spyOn(process[name], "write").mockImplementation((chunk) => {
      printed[name] += String(chunk);
      return true;
    });
  }
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

test.each([
  ["an unknown option", ["check", "--bogus"]],
  ["an unknown command", ["dance"]],
  ["no command", []],
  ["a required option left out", ["sign-webhook", "--endpoint", "/a"]],
  ["a malformed service ID", ["check", "--service-id", "01"]],
  ["a service ID above u64", ["check", "--service-id", "18446744073709551616"]],
  ["an unknown log level", ["serve", "--log-level", "loud"]],
])("Exits with 2 for bad usage: %s", async (_, args) => {
  expect(await runProgram(args)).toBe(2);
  expect(printed.stdout).toBe("");
  expect(printed.stderr).not.toBe("");
});

test.each(["JOBGATE_SERVICE_ID", "JOBGATE_ONLINE"])("A malformed %s is bad usage", async (twin) => {
  vi.stubEnv(twin, "maybe");
  expect(await runProgram(["check"])).toBe(2);
});

test("The process exits with the code of its command", async () => {
  const { code, stderr } = await runJobgate(["dance"]);
  expect(code).toBe(2);
  expect(stderr).toContain("unknown command 'dance'");
});

test("--version prints the package's version", async () => {
  const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8"));
  expect(await runProgram(["--version"])).toBe(0);
  expect(printed.stdout).toBe(`${version}\n`);
});

test("--help of each command shows one example, and the environment twin of each option", async () => {
  await runProgram(["--help"]);
  const commands = [...printed.stdout.matchAll(/^ {2}([a-z-]+) \[options\]/gm)].map(([, name = ""]) => name);
  expect(commands).toEqual(expect.arrayContaining(["serve", "check", "sign-webhook"]));
  for (const name of commands) {
    printed.stdout = "";
    expect(await runProgram([name, "--help"])).toBe(0);
    expect(printed.stdout.match(/\$ jobgate /g)).toHaveLength(1);
    expect(printed.stdout).toContain(`$ jobgate ${name}`);
    const [, ...options] = printed.stdout.split(/^ {2}(?:-[a-zA-Z], )?--(?=[a-z])/m);
    for (const option of options) {
      const [flag = ""] = option.split(/[^a-z-]/);
      if (flag === "help") continue;
      expect(option.replace(/\s+/g, " ")).toContain(
        `env: JOBGATE_${flag.toUpperCase().replaceAll("-", "_")}`,
      );
    }
  }
});

test("help prints the help of the command that is named, at any depth", async () => {
  for (const named of [["jobs", "resend"], ["jobs"], ["dead-letters", "retry"]]) {
    printed.stdout = "";
    expect(await runProgram(["help", ...named])).toBe(0);
    expect(printed.stdout).toContain(`Usage: jobgate ${named.join(" ")} [options]`);
  }
  expect(await runProgram(["help", "jobs", "nothing"])).toBe(0);
});

test("The variable of another command's --all selects no dead letters", async () => {
  vi.stubEnv("JOBGATE_ALL", "1");
  expect(await runProgram(["dead-letters", "drop"])).toBe(2);
});
