import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

const read = (path: string) => readFile(join(ROOT, path), "utf8");

test("Every manifest, the changelog and the page about installing name the version of package.json", async () => {
  const { version } = JSON.parse(await read("package.json")) as { version: string };
  const lock = JSON.parse(await read("package-lock.json")) as {
    version: string;
    packages: Record<string, { version?: string }>;
  };
  expect([lock.version, lock.packages[""]?.version]).toEqual([version, version]);
  // PyPI writes 1.0.0-rc.1 as 1.0.0rc1.
  const versionOfPython = version.replace(/-([a-z]+)\./, "$1");
  expect(await read("clients/python/pyproject.toml")).toContain(`\nversion = "${versionOfPython}"\n`);
  expect(await read("clients/rust/Cargo.toml")).toContain(`\nversion = "${version}"\n`);
  expect(await read("clients/rust/Cargo.lock")).toContain(
    `name = "jobgate-runner"\nversion = "${version}"\n`,
  );
  expect(await read("examples/runner-go/go.mod")).toContain(
    `require github.com/jobgate/jobgate/clients/go v${version}\n`,
  );
  const [, newest] = /^## \[(.+?)\]/m.exec(await read("CHANGELOG.md")) ?? [];
  expect(newest).toBe(version);
  const packed = [...(await read("docs/installing.md")).matchAll(/jobgate-(\S+)\.tgz/g)];
  expect(packed.length).toBeGreaterThan(0);
  for (const [name] of packed) expect(name).toBe(`jobgate-${version}.tgz`);
});

test("Every package that is published has the licence of the repository", async () => {
  const licence = await read("LICENSE");
  expect(licence).toContain("Apache License");
  for (const folder of ["clients/go", "clients/python", "clients/rust"])
    expect(await read(`${folder}/LICENSE`)).toBe(licence);
});
