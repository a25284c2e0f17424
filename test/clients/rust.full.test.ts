import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { DescMessage } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { file_jobgate_v1_runner as proto } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { ROOT } from "../e2e/workshop.ts";
import { cargo } from "./cargo.ts";

test("The crate's own tests pass, and its code is formatted", async () => {
  await cargo(["fmt", "--check"]);
  expect(await cargo(["test", "--locked"])).toContain("test result: ok");
});

test("The crate has jobgate's version", async () => {
  const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
  expect(JSON.parse(await cargo(["read-manifest"]))).toMatchObject({ version });
});

test("The crate's generated code has the fields and values of the proto", async () => {
  const code = await readFile(join(ROOT, "clients/rust/src/proto.rs"), "utf8");
  const generated = [...code.matchAll(/tag = "(\d+)"\)\]\s+(?:pub )?(\w+)/g)].map(
    ([, tag, name = ""]) => `${name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase()} = ${tag}`,
  );
  const expected = proto.messages.flatMap(withNested).flatMap(({ fields }) => fields);
  expect(generated.sort()).toEqual(expected.map(({ name, number }) => `${name} = ${number}`).sort());
  for (const { values } of proto.enums)
    for (const { name, number } of values) {
      const variant = new RegExp(`Self::(\\w+) => "${name}"`).exec(code)?.[1];
      expect(code).toContain(`${variant} = ${number},`);
    }
});

function withNested(message: DescMessage): DescMessage[] {
  return [message, ...message.nestedMessages.flatMap(withNested)];
}
