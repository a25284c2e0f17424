import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/load-config.ts";
import { testFolder } from "../helpers/test-folder.ts";

const VARIABLES = {
  OPERATOR_TOKEN: "operator-token",
  ALERTS_SECRET: "0123456789abcdef0123456789abcdef",
  RUNNER_TOKEN: "runner-token",
  STORE_URL: "postgres://jobgate:secret@127.0.0.1/jobgate",
  PAY_TO: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
  NETWORK: "base-sepolia",
  FACILITATOR_URL: "https://x402.org/facilitator",
  PUBLIC_URL: "http://localhost:8402",
};

const read = (path: string) => readFile(new URL(`../../deploy/${path}`, import.meta.url), "utf8");

/** The file that a ConfigMap holds, without the indentation of its YAML. */
function fileInConfigMap(yaml: string): string {
  const [, block] = /^ {2}jobgate\.toml: \|\n((?: {4}.*\n|\n)+)/m.exec(yaml) ?? [];
  if (block === undefined) throw new Error("no jobgate.toml in the ConfigMap");
  return block.replace(/^ {4}/gm, "");
}

describe("A configuration that is deployed", () => {
  it.each([
    ["docker/jobgate.toml", (text: string) => text],
    ["systemd/jobgate.toml", (text: string) => text],
    ["kubernetes/sidecar.yaml", fileInConfigMap],
    ["kubernetes/replicas.yaml", fileInConfigMap],
  ])(
    "sells a job, takes a webhook, and has no mistake with the variables that it names: %s",
    async (path, toml) => {
      const folder = await testFolder();
      await writeFile(join(folder, "jobgate.toml"), toml(await read(path)));
      const loaded = await loadConfig({ path: join(folder, "jobgate.toml"), env: VARIABLES });
      expect(loaded).toMatchObject({
        ok: true,
        warnings: [],
        config: { x402: { jobs: [{ name: "echo" }] }, webhooks: { endpoints: [{ path: "/hooks/alerts" }] } },
      });
    },
  );
});

describe("compose.yaml", () => {
  const names = (text: string, pattern: RegExp) => [
    ...new Set([...text.matchAll(pattern)].map(([, name]) => name)),
  ];

  it("passes on the variables that its configuration names, from those that .env.example describes", async () => {
    const [compose, toml, example] = await Promise.all(
      ["docker/compose.yaml", "docker/jobgate.toml", "docker/.env.example"].map(read),
    );
    const passed = names(compose ?? "", /^ {6}([A-Z_]+): \$\{\1\b/gm);
    expect(names(compose ?? "", /\$\{([A-Z_]+)/g)).toEqual(passed);
    expect(names(toml ?? "", /"env:([A-Z_]+)"/g).sort()).toEqual([...passed].sort());
    expect(names(example ?? "", /^([A-Z_]+)=/gm).sort()).toEqual([...passed].sort());
  });

  it("has the defaults of .env.example, and requires what has none", async () => {
    const [compose = "", example = ""] = await Promise.all(
      ["docker/compose.yaml", "docker/.env.example"].map(read),
    );
    for (const [, name, value] of example.matchAll(/^([A-Z_]+)=(.*)$/gm))
      expect(compose).toContain(value === "" ? `\${${name}:?` : `\${${name}:-${value}}`);
  });
});

describe("The Dockerfile", () => {
  it("copies files that its build context has, and all that the build runs on", async () => {
    const [dockerfile, ignored] = await Promise.all(
      ["docker/Dockerfile", "docker/Dockerfile.dockerignore"].map(read),
    );
    const copied = [...(dockerfile ?? "").matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = ""]) =>
      files.split(" ").map((file) => file.replace("./", "")),
    );
    const kept = [...(ignored ?? "").matchAll(/^!(.*)$/gm)].map(([, file]) => file);
    expect(kept).toEqual(expect.arrayContaining(copied));
    const { scripts } = JSON.parse(await read("../package.json")) as { scripts: { build: string } };
    expect(copied).toEqual(expect.arrayContaining(scripts.build.match(/\b[a-z.]+\.(ts|json)\b/g) ?? []));
  });
});

describe("A Service of Kubernetes", () => {
  it.each(["sidecar.yaml", "replicas.yaml"])("names jobgate's ports by number: %s", async (name) => {
    const yaml = await read(`kubernetes/${name}`);
    const targets = [...yaml.matchAll(/^ +targetPort: (.*)$/gm)].map(([, port]) => port);
    const ports = [...yaml.matchAll(/^ +containerPort: (\d+)$/gm)].map(([, port]) => port);
    expect(targets).toEqual(["8402", "9090"]);
    expect(ports).toEqual(expect.arrayContaining(targets));
  });
});
