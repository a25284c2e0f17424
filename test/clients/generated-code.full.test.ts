import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { need, ROOT, run } from "../e2e/workshop.ts";
import { testFolder } from "../helpers/test-folder.ts";

const PACKAGES = join(ROOT, "node_modules/.cache/jobgate-java");
const POM = join(ROOT, "test/clients/java/pom.xml");
/** Maven's names for the platforms that Node runs on. */
const OS: Readonly<Record<string, string>> = { linux: "linux", darwin: "osx", win32: "windows" };
const CPU: Readonly<Record<string, string>> = { x64: "x86_64", arm64: "aarch_64" };

test("Java code generated from the .proto compiles with a runner, and C# code has its namespace", async () => {
  await need("mvn", ["--version"], "Maven");
  await need("javac", ["--version"], "a JDK of version 17 or later");
  const files = await install(`${OS[process.platform]}-${CPU[process.arch]}`);
  const program = (name: string) => join(PACKAGES, files.find((file) => file.startsWith(`${name}-`)) ?? name);
  const protoc = (language: string) => ({
    protoc_builtin: language,
    protoc_path: program("protoc"),
    out: language,
  });

  const out = await testFolder();
  const template = {
    version: "v2",
    inputs: [{ directory: "proto", paths: ["proto/jobgate"] }],
    plugins: [protoc("java"), { local: program("protoc-gen-grpc-java"), out: "java" }, protoc("csharp")],
  };
  await run("buf", ["generate", "--template", JSON.stringify(template), "--output", out], ROOT);
  // Compiles the runner and what it refers to: all of the code would take a minute.
  const [classes, runner] = [join(out, "classes"), join(ROOT, "test/clients/java/Runner.java")];
  const paths = ["-classpath", join(PACKAGES, "*"), "-sourcepath", join(out, "java"), "-d", classes];
  await run("javac", [...paths, runner], ROOT);
  expect(await readdir(classes)).toContain("Runner.class");
  expect(await readFile(join(out, "csharp/Runner.cs"), "utf8")).toContain("namespace Jobgate.V1 {");
});

/** Installs the packages once. @returns their files */
async function install(platform: string): Promise<string[]> {
  const [wanted, done] = [await readFile(POM, "utf8"), join(PACKAGES, "pom.xml")];
  if ((await readFile(done, "utf8").catch(() => "")) !== wanted) {
    await mkdir(PACKAGES, { recursive: true });
    const options = ["-f", POM, `-Dplatform=${platform}`, `-DoutputDirectory=${PACKAGES}`];
    await run("mvn", ["--quiet", "--batch-mode", "dependency:copy-dependencies", ...options], ROOT);
  }
  const files = await readdir(PACKAGES);
  for (const file of files) if (file.endsWith(".exe")) await chmod(join(PACKAGES, file), 0o755);
  await writeFile(done, wanted);
  return files;
}
