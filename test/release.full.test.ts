import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createVenv, installPackages } from "./e2e/python.ts";
import { copySources, needGo, ROOT, run, WORKSHOP } from "./e2e/workshop.ts";
import { testFolder } from "./helpers/test-folder.ts";

/* Makes what each registry gets, and sends it nowhere; test/e2e/runners.full.test.ts builds a runner with the packed crate. The steps of a release are in CONTRIBUTING.md. */

const GO_HOST = "github.com";
const GO_PARENT = `${GO_HOST}/jobgate/jobgate/clients`;
const GO_MODULE = `${GO_PARENT}/go`;
/** Program that zips the files of a folder. Go refuses a zip with entries for folders. */
const ZIP = `
import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for path in pathlib.Path(sys.argv[2]).rglob("*"):
        if path.is_file(): archive.write(path)
`;

async function version(): Promise<string> {
  return (JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string }).version;
}

test("npm would publish the package without a correction of its manifest", async () => {
  const publish = "npm publish --dry-run --ignore-scripts --tag next 2>&1";
  const report = await run("sh", ["-c", publish], ROOT);
  expect(report).toContain(`+ jobgate@${await version()}`);
  expect(report).not.toMatch(/corrected|package-json/);
});

test("The Python library is built as a wheel and a source distribution that twine accepts", async () => {
  const folder = join(WORKSHOP, "release-python");
  for (const part of ["src", "dist"]) await rm(join(folder, part), { recursive: true, force: true });
  await copySources(join(ROOT, "clients/python"), folder);
  const python = await createVenv(folder);
  await installPackages(python, ["build", "twine"], folder);
  await run(python, ["-m", "build"], folder);
  const built = (await readdir(join(folder, "dist"))).map((name) => join("dist", name));
  expect(built.map((name) => /\.(whl|tar\.gz)$/.exec(name)?.[0]).sort()).toEqual([".tar.gz", ".whl"]);
  const report = await run(python, ["-m", "twine", "check", "--strict", ...built], folder);
  expect(report.match(/PASSED/g)).toHaveLength(2);
});

test("The Go module is found at its version, served by a proxy of modules, with all its packages", async () => {
  await needGo();
  const release = `v${await version()}`;
  const folder = await testFolder();
  const served = join(folder, "proxy", GO_MODULE, "@v");
  await mkdir(served, { recursive: true });
  await writeFile(join(served, "list"), `${release}\n`);
  await writeFile(join(served, `${release}.info`), JSON.stringify({ Version: release }));
  await cp(join(ROOT, "clients/go/go.mod"), join(served, `${release}.mod`));
  const files = `${GO_MODULE}@${release}`;
  await cp(join(ROOT, "clients/go"), join(folder, files), { recursive: true });
  await run("python3", ["-c", ZIP, join(served, `${release}.zip`), GO_HOST], folder);

  const runner = join(folder, "runner");
  await cp(join(ROOT, "examples/runner-go"), runner, { recursive: true });
  const manifest = await readFile(join(runner, "go.mod"), "utf8");
  await writeFile(join(runner, "go.mod"), manifest.replace(/^replace .*$/m, ""));
  const modules = join(WORKSHOP, "go");
  // Go takes a version that it has for the same, whatever its files.
  for (const cached of ["cache/download", "."])
    for (const name of await readdir(join(modules, cached, GO_PARENT)).catch(() => []))
      if (name.startsWith("go")) await rm(join(modules, cached, GO_PARENT, name), { recursive: true });
  const [proxies = "", downloaded = ""] = (await run("go", ["env", "GOPROXY", "GOMODCACHE"], ROOT)).split(
    "\n",
  );
  const env = {
    GOPROXY: `file://${join(folder, "proxy")},file://${join(downloaded, "cache/download")},${proxies}`,
    GONOSUMDB: GO_MODULE,
    GOMODCACHE: modules,
    GOFLAGS: "-mod=mod -modcacherw -buildvcs=false",
  };
  await run("go", ["mod", "tidy"], runner, env);
  const packages = await run(
    "go",
    ["list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "all"],
    runner,
    env,
  );
  expect(packages).toContain(`${GO_MODULE} ${release}\n`);
});
