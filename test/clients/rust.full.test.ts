import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { DescMessage } from "@bufbuild/protobuf";
import { expect, onTestFinished, test, vi } from "vitest";
import { file_jobgate_v1_runner as proto } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { copySources, ROOT, replaceIn, WORKSHOP } from "../e2e/workshop.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { until } from "../helpers/until.ts";
import { startWorkDelivery } from "../parts/work-stream/harness.ts";
import { CARGO_TARGET, cargo } from "./cargo.ts";

test("The crate's own tests pass, and its code is formatted", async () => {
  await cargo(["fmt", "--check"]);
  expect(await cargo(["test", "--locked"])).toContain("test result: ok");
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

test("A Rust runner trusts the authorities in SSL_CERT_FILE, and no others", async () => {
  const runner = await buildWithTls();
  const certificates = await makeCertificates();
  onTestFinished(() => certificates.stop());
  const [cert, key] = await Promise.all(
    ["server.pem", "server.key"].map((name) => readFile(certificates.file(name), "utf8")),
  );
  const tls = { cert: cert ?? "", key: key ?? "" };
  const { accept, address, store } = await startWorkDelivery({ tls, tokens: ["secret"] });
  const acks = vi.spyOn(store, "ack");
  const start = (authority: string) => {
    const names = { JOBGATE_RUNNER: `https://${address}`, JOBGATE_RUNNER_TOKEN: "secret" };
    const env = { ...process.env, ...names, SSL_CERT_FILE: certificates.file(`${authority}.pem`) };
    const child = spawnTethered({ command: runner, args: [], env });
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await processEnded(child);
    });
    return child;
  };
  await accept();
  let log = "";
  start("stranger").stdout.on("data", (chunk) => {
    log += chunk;
  });
  await until(() => log.includes("UnknownIssuer"));
  expect(acks).not.toHaveBeenCalled();
  start("authority");
  await until(() => acks.mock.calls.length === 1);
});

/** Builds the example with the feature `tls`, under a name of its own. @returns its path */
async function buildWithTls(): Promise<string> {
  const folder = join(WORKSHOP, "runner-tls");
  await copySources(join(ROOT, "examples/runner-rust"), folder);
  const manifest = join(folder, "Cargo.toml");
  await replaceIn(manifest, '"runner-rust"', '"runner-tls"');
  await replaceIn(manifest, "../../clients/rust", join(ROOT, "clients/rust"));
  await cp(join(ROOT, "clients/rust/Cargo.lock"), join(folder, "Cargo.lock"));
  await cargo(["build", "--features", "jobgate-runner/tls"], folder);
  return join(CARGO_TARGET, "debug/runner-tls");
}

function withNested(message: DescMessage): DescMessage[] {
  return [message, ...message.nestedMessages.flatMap(withNested)];
}
