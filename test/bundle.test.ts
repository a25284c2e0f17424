import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "./helpers/bundle.ts";

const PROGRAM = join(ROOT, "dist/program");

/** OpenTelemetry's detector of hosts, which jobgate does not use. */
const UNUSED = /getMachineId/;

test("The built program takes a CommonJS package that it loads late from its default export, which is all there is", () => {
  const scripts = readdirSync(PROGRAM).filter((name) => name.endsWith(".js") && !UNUSED.test(name));
  const texts = new Map(scripts.map((name) => [name, readFileSync(join(PROGRAM, name), "utf8")]));
  const isCommonJs = (name = "") =>
    /^(?:export default|var \w+_default =) require_/m.test(texts.get(name) ?? "");
  const late = [...texts.values()].flatMap((text) => [
    ...text.matchAll(/import\("\.\/([^"]+)"\)(\)\.default)?/g),
  ]);
  expect(late.length).toBeGreaterThan(0);
  expect(late.filter(([, name, isDefault]) => isCommonJs(name) && !isDefault).map(([text]) => text)).toEqual(
    [],
  );
});
