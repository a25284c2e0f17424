import { buildSync } from "esbuild";
import { expect, test } from "vitest";
import { MODULES } from "../../bundle.ts";

test("`jobgate/runner` loads nothing of the server", () => {
  const { metafile } = buildSync({
    ...{ ...MODULES, entryPoints: ["src/api/runner.ts"], outdir: "dist", write: false, metafile: true },
  });
  const loaded = Object.keys(metafile.inputs);
  expect(loaded.filter((path) => path.startsWith("src/")).sort()).toEqual([
    "src/api/runner.ts",
    "src/core/job-call.ts",
    "src/core/result-answer.ts",
    "src/gen/jobgate/v1/runner_pb.ts",
    "src/grpc/service-definition.ts",
    "src/runner/job.ts",
    "src/runner/run.ts",
    "src/runner/runner.ts",
  ]);
  const packages = loaded.flatMap((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
  expect([...new Set(packages)].sort()).toEqual([
    "@bufbuild/protobuf",
    "@grpc/grpc-js",
    "@js-sdsl/ordered-map",
    "p-limit",
    "yocto-queue",
  ]);
});
