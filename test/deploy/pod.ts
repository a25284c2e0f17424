import { chmod, chown, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { until } from "../helpers/until.ts";
import type { Docker } from "./docker.ts";

const Probe = z.strictObject({
  httpGet: z.strictObject({ path: z.enum(["/healthz", "/readyz"]), port: z.string() }),
  periodSeconds: z.number(),
  failureThreshold: z.number().default(3),
});
const Container = z.strictObject({
  name: z.string(),
  image: z.string(),
  imagePullPolicy: z.literal("IfNotPresent"),
  restartPolicy: z.literal("Always").optional(),
  args: z.array(z.string()).default([]),
  ports: z.array(z.strictObject({ name: z.string(), containerPort: z.number() })).default([]),
  envFrom: z.array(z.strictObject({ secretRef: z.strictObject({ name: z.string() }) })).default([]),
  startupProbe: Probe.optional(),
  readinessProbe: Probe.optional(),
  livenessProbe: Probe.optional(),
  resources: z.strictObject({
    requests: z.strictObject({ cpu: z.string(), memory: z.string() }),
    limits: z.strictObject({ memory: z.string().regex(/^\d+Mi$/) }),
  }),
  securityContext: z.strictObject({
    allowPrivilegeEscalation: z.literal(false),
    readOnlyRootFilesystem: z.literal(true),
    capabilities: z.strictObject({ drop: z.tuple([z.literal("ALL")]) }),
  }),
  volumeMounts: z.array(
    z.strictObject({ name: z.string(), mountPath: z.string(), readOnly: z.literal(true).optional() }),
  ),
});
const PodSpec = z.strictObject({
  terminationGracePeriodSeconds: z.number(),
  automountServiceAccountToken: z.literal(false),
  securityContext: z.strictObject({
    runAsNonRoot: z.literal(true),
    runAsUser: z.number(),
    runAsGroup: z.number(),
    fsGroup: z.number(),
    seccompProfile: z.strictObject({ type: z.literal("RuntimeDefault") }),
  }),
  initContainers: z.tuple([Container]),
  containers: z.tuple([Container]),
  volumes: z.array(
    z.union([
      z.strictObject({ name: z.string(), configMap: z.strictObject({ name: z.string() }) }),
      z.strictObject({
        name: z.string(),
        emptyDir: z.strictObject({ medium: z.literal("Memory").optional() }),
      }),
    ]),
  ),
});
type Container = z.infer<typeof Container>;
type Probe = z.infer<typeof Probe>;

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: { readonly template: { readonly spec: unknown } };
}

/** A pod of deploy/kubernetes in containers of Docker, as the kubelet of a node makes it. */
export interface Pod {
  /** Address of all its containers. */
  readonly address: string;
  /** Starts jobgate, and the runner once the startup probe has passed. @throws Error with what jobgate printed, if it ends */
  start(): Promise<void>;
  /** Ends a container as the kubelet does: SIGTERM, and SIGKILL after the grace period. @returns its exit code */
  end(container: "jobgate" | "runner"): Promise<number>;
  /** Ends the runner, and then jobgate. @returns the exit code of jobgate */
  stop(): Promise<number>;
  /** Runs a shell in the container of jobgate. */
  inside(script: string): Promise<string>;
}

/** Runs the pod of a file. A field of the pod that this does not carry out is refused. */
export async function createPod(
  engine: Docker,
  options: {
    readonly yaml: string;
    readonly secret: Readonly<Record<string, string>>;
    /** Folder of persistent volumes, which the next pod may have too. */
    readonly claims: string;
  },
): Promise<Pod> {
  const { docker } = engine;
  const objects = parseAllDocuments(options.yaml).map((document) => document.toJS() as KubernetesObject);
  const found = objects.find(({ kind }) => kind === "StatefulSet" || kind === "Deployment");
  const pod = PodSpec.parse(found?.spec.template.spec);
  const { runAsUser, runAsGroup, fsGroup } = pod.securityContext;
  const folder = await mkdtemp("/var/tmp/jobgate-pod-");
  await chmod(folder, 0o755);
  const secret = join(folder, "secret.env");
  const lines = Object.entries(options.secret).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(secret, lines.join(""));
  const sandbox = (await docker("run", "--detach", "--entrypoint", "sleep", "jobgate", "infinity")).trim();
  const address = (
    await docker("inspect", "--format", "{{.NetworkSettings.Networks.bridge.IPAddress}}", sandbox)
  ).trim();
  const ids = new Map<string, string>();

  /** Makes the folder of a volume, which the pod's group may write. */
  async function volume(name: string): Promise<string> {
    const source = pod.volumes.find((volume) => volume.name === name);
    const path = source === undefined ? join(options.claims, name) : join(folder, name);
    if (!(await mkdir(path, { recursive: true }))) return path;
    await chown(path, 0, fsGroup);
    await chmod(path, source === undefined ? 0o2775 : 0o2777);
    if (source !== undefined && "configMap" in source) await writeConfigMap(path, source.configMap.name);
    return path;
  }

  /** Writes files as the kubelet does: links to files of a folder that a link names. */
  async function writeConfigMap(path: string, name: string): Promise<void> {
    const map = objects.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === name);
    await mkdir(join(path, "..version"));
    await symlink("..version", join(path, "..data"));
    for (const [file, text] of Object.entries(map?.data ?? {})) {
      await writeFile(join(path, "..version", file), text);
      await symlink(`..data/${file}`, join(path, file));
    }
  }

  async function run(container: Container): Promise<void> {
    const mounts: string[] = [];
    for (const { name, mountPath, readOnly } of container.volumeMounts)
      mounts.push("--volume", `${await volume(name)}:${mountPath}${readOnly ? ":ro" : ""}`);
    const id = await docker(
      ...["run", "--detach", "--network", `container:${sandbox}`, ...mounts],
      ...["--user", `${runAsUser}:${runAsGroup}`, "--group-add", String(fsGroup)],
      ...["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true", "--no-healthcheck"],
      ...["--memory", container.resources.limits.memory.replace("Mi", "m")],
      ...(container.envFrom.length > 0 ? ["--env-file", secret] : []),
      ...[container.image, ...container.args],
    );
    ids.set(container.name, id.trim());
  }

  async function pass(container: Container, probe: Probe): Promise<void> {
    const port = container.ports.find(({ name }) => name === probe.httpGet.port)?.containerPort;
    const url = `http://${address}:${port}${probe.httpGet.path}`;
    const answers = async () => {
      const id = ids.get(container.name) ?? "";
      if ((await docker("inspect", "--format", "{{.State.Running}}", id)).trim() === "false")
        throw new Error(`${container.name} has ended:\n${await docker("logs", id)}`);
      return fetch(url).then(
        ({ ok }) => ok,
        () => false,
      );
    };
    await until(answers, { waitMs: probe.periodSeconds * probe.failureThreshold * 1_000 });
  }

  async function end(name: string): Promise<number> {
    const id = ids.get(name) ?? "";
    await docker("stop", "--time", String(pod.terminationGracePeriodSeconds), id);
    return Number(await docker("inspect", "--format", "{{.State.ExitCode}}", id));
  }

  return {
    address,
    end,
    async start() {
      const [sidecar] = pod.initContainers;
      await run(sidecar);
      for (const probe of [sidecar.startupProbe, sidecar.readinessProbe, sidecar.livenessProbe])
        if (probe !== undefined) await pass(sidecar, probe);
      await run(pod.containers[0]);
      // Before it has handlers of signals, the first process of a container ignores them.
      await until(async () => (await docker("logs", ids.get("runner") ?? "")).includes("connected to"));
    },
    async stop() {
      if (ids.has("runner")) await end("runner");
      const code = await end("jobgate");
      await docker("rm", "--force", "--volumes", ...ids.values(), sandbox);
      await rm(folder, { recursive: true });
      return code;
    },
    inside: (script) => docker("exec", ids.get("jobgate") ?? "", "sh", "-c", script),
  };
}

export const readKubernetes = (name: string) =>
  readFile(new URL(`../../deploy/kubernetes/${name}`, import.meta.url), "utf8");
