import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { needGo, ROOT, run } from "../e2e/workshop.ts";
import { testFolder } from "../helpers/test-folder.ts";

const MODULE = join(ROOT, "clients/go");

test("The Go library's tests pass under the race detector, and its code is formatted and vetted", async () => {
  await needGo();
  const folders = ["clients/go", "examples/runner-go", "test/e2e/runner-programs/go"];
  expect(await run("gofmt", ["-l", ...folders], ROOT)).toBe("");
  await run("go", ["vet", "-p", "2", "./..."], MODULE);
  const report = await run("go", ["test", "-race", "-p", "2", "-json", "./..."], MODULE);
  expect(report).toContain('"Action":"pass"');
});

test("The Go library's generated code matches the .proto", async () => {
  await needGo();
  const out = await testFolder();
  await run("buf", ["generate", "--template", "clients/go/buf.gen.yaml", "--output", out], ROOT);
  const [generated, committed] = [join(out, "clients/go/jobgatev1"), join(MODULE, "jobgatev1")];
  const files = await readdir(committed);
  expect(await readdir(generated)).toEqual(files);
  for (const file of files)
    expect(await readFile(join(generated, file), "utf8")).toBe(await readFile(join(committed, file), "utf8"));
});
