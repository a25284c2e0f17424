import { readFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { createVenv, installPackages } from "../e2e/python.ts";
import { copySources, ROOT, run, WORKSHOP } from "../e2e/workshop.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { until } from "../helpers/until.ts";
import { startWorkDelivery } from "../parts/work-stream/harness.ts";

const LIBRARY = join(ROOT, "clients/python");
/** Copy of the library in which it is installed. */
const FOLDER = join(WORKSHOP, "python-library");
const GENERATE = [
  "--path",
  "proto/jobgate/v1/runner.proto",
  "--as-file-descriptor-set",
  "--exclude-source-info",
];

let python: string;
beforeAll(async () => {
  for (const part of ["src", "tests"]) await rm(join(FOLDER, part), { recursive: true, force: true });
  await copySources(LIBRARY, FOLDER);
  python = await createVenv(FOLDER);
  await installPackages(python, ["-e", ".", "mypy>=1.15,<3", "types-protobuf"], FOLDER);
});

/** Files of a descriptor set, without their options, which are about other languages. */
async function readMessages(path: string): Promise<FileDescriptorProto[]> {
  const { file } = fromBinary(FileDescriptorSetSchema, await readFile(path));
  return file.map(({ options: _options, ...messages }) => messages);
}

test("The Python library passes its own tests", async () => {
  await run(python, ["-m", "unittest", "discover", "tests"], FOLDER);
});

test("The Python library, its example and the test program have correct types", async () => {
  const programs = ["examples/runner-python/runner.py", "test/e2e/runner-programs/python/runner.py"];
  await run(python, ["-m", "mypy", "src"], FOLDER);
  for (const program of programs) await run(python, ["-m", "mypy", "--strict", join(ROOT, program)], FOLDER);
});

test("The Python library has the messages of the .proto", async () => {
  const built = join(FOLDER, "runner.binpb");
  await run("buf", ["build", "proto", ...GENERATE, "-o", built], ROOT);
  expect(await readMessages(join(LIBRARY, "src/jobgate_runner/runner.binpb"))).toEqual(
    await readMessages(built),
  );
});

test("A Python runner trusts its CA file's authorities, no others, and presents its certificate", async () => {
  const certificates = await makeCertificates();
  onTestFinished(() => certificates.stop());
  const pem = (name: string) => readFileSync(certificates.file(name), "utf8");
  const tls = { cert: pem("server.pem"), key: pem("server.key"), clientCa: pem("authority.pem") };
  const { accept, address, store } = await startWorkDelivery({ tls, tokens: ["secret"] });
  const acks = vi.spyOn(store, "ack");
  const start = (authority: string, own: readonly string[] = []) => {
    const files = [authority, ...own].map((name) => certificates.file(name));
    const options = `**dict(zip(("ca", "cert", "key"), sys.argv[1:]))`;
    const program = `import sys, jobgate_runner\njobgate_runner.run(lambda job: "done", ${options})`;
    const args = ["-c", program, ...files];
    const env = { ...process.env, JOBGATE_RUNNER: address, JOBGATE_RUNNER_TOKEN: "secret" };
    const child = spawnTethered({ command: python, args, cwd: FOLDER, env });
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await processEnded(child);
    });
    return child;
  };
  await accept();
  let errors = "";
  for (const authority of ["stranger.pem", "authority.pem"])
    start(authority).stderr.on("data", (chunk) => {
      errors += chunk;
    });
  await until(() => errors.includes("disconnected: UNAVAILABLE"));
  await until(() => errors.includes("refuses this runner: UNAUTHENTICATED"));
  expect(acks).not.toHaveBeenCalled();
  start("authority.pem", ["runner.pem", "runner.key"]);
  await until(() => acks.mock.calls.length === 1);
});
