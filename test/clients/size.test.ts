import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../e2e/workshop.ts";

/** Sources of each library, without generated code and tests. */
const SOURCES = {
  node: "src/runner",
  python: "clients/python/src/jobgate_runner",
  go: "clients/go",
  rust: "clients/rust/src",
};
const SOURCE = /(?<!_test)\.(ts|py|go|rs)$/;
/** Lines that are empty or comments. */
const NO_CODE = /^\s*$|^\s*(\/\/|\/?\*|#(?!!?\[))/;
const DOCSTRING = /""".*?"""/gs;

test.each(Object.entries(SOURCES))(
  "The runner library for %s has under 300 lines of code",
  async (_, folder) => {
    const names = (await readdir(join(ROOT, folder))).filter(
      (name) => SOURCE.test(name) && name !== "proto.rs",
    );
    const texts = await Promise.all(names.map((name) => readFile(join(ROOT, folder, name), "utf8")));
    const code = texts
      .flatMap((text) => text.replace(DOCSTRING, "").split("\n"))
      .filter((line) => !NO_CODE.test(line));
    expect(code.length).toBeGreaterThan(200);
    expect(code.length).toBeLessThan(300);
  },
);
