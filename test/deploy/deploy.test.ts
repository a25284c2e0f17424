import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";

const SECRETS = {
  OPERATOR_TOKEN: "operator-token",
  ALERTS_SECRET: "sender-secret",
  STORE_URL: "postgres://jobgate:secret@127.0.0.1/jobgate",
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
    ["kubernetes/sidecar.yaml", fileInConfigMap],
    ["kubernetes/replicas.yaml", fileInConfigMap],
  ])("has no mistake, with the secrets that it names: %s", async (path, toml) => {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-deploy-"));
    try {
      await writeFile(join(folder, "jobgate.toml"), toml(await read(path)));
      const loaded = await loadConfig({ path: join(folder, "jobgate.toml"), env: SECRETS });
      expect(loaded).toMatchObject({ ok: true, warnings: [] });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe("A Service of Kubernetes", () => {
  it.each(["sidecar.yaml", "replicas.yaml"])("names jobgate's ports by number: %s", async (name) => {
    const yaml = await read(`kubernetes/${name}`);
    const targets = [...yaml.matchAll(/^ +targetPort: (.*)$/gm)].map(([, port]) => port);
    const ports = [...yaml.matchAll(/^ +containerPort: (\d+)$/gm)].map(([, port]) => port);
    expect(targets).toHaveLength(1);
    expect(ports).toEqual(expect.arrayContaining(targets));
  });
});
