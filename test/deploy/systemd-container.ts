import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { until } from "../helpers/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const UNIT = "jobgate.service";
const PACKAGES = "systemd,systemd-sysv,dbus,libstdc++6,procps";

const run = promisify(execFile);

/** A Debian that systemd has booted in a container, with the network of this machine. */
export interface BootedDebian {
  /** Runs a command in it, and gives what the command printed. */
  run(...command: readonly string[]): Promise<string>;
  /** Returns what systemd says of a property of jobgate's unit. */
  property(name: string): Promise<string>;
  /** Replaces jobgate's configuration. */
  configure(config: string): Promise<void>;
  stop(): Promise<void>;
}

/** Installs jobgate's package and unit as docs/deploying.md says, and boots. `secrets` are the unit's environment file. */
export async function bootDebian(
  config: string,
  secrets: Readonly<Record<string, string>>,
): Promise<BootedDebian> {
  // Not in memory: a Debian with Node is large.
  const folder = await mkdtemp(join("/var/tmp", "jobgate-debian-"));
  const root = join(folder, "root");
  await run("mmdebstrap", ["--quiet", "--variant=minbase", `--include=${PACKAGES}`, "bookworm", root]);
  await installPackage(root);
  await copyFile(process.execPath, join(root, "usr/bin/node"));
  await mkdir(join(root, "etc/jobgate"));
  const configPath = join(root, "etc/jobgate/jobgate.toml");
  const lines = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`);
  await Promise.all([
    writeFile(configPath, config),
    writeFile(join(root, "etc/jobgate/secrets"), lines.join(""), { mode: 0o600 }),
    copyFile(join(ROOT, "deploy/systemd", UNIT), join(root, "etc/systemd/system", UNIT)),
    symlink(`../${UNIT}`, join(root, "etc/systemd/system/multi-user.target.wants", UNIT)),
  ]);
  const container = spawnTethered({
    command: "systemd-nspawn",
    args: ["--quiet", "--register=no", "--keep-unit", "--console=pipe", "--boot", "-D", root],
  });
  let printed = "";
  for (const stream of [container.stdout, container.stderr])
    stream.on("data", (chunk: Buffer) => {
      printed = (printed + chunk.toString()).slice(-5_000);
    });

  /** The container's first process. */
  const leader = await until(() => systemdUnder(container.pid), { details: () => printed });
  const inside = async (...command: readonly string[]) => {
    const entered = ["--target", leader, "--mount", "--uts", "--ipc", "--pid", "--cgroup", ...command];
    return (await run("nsenter", entered)).stdout;
  };
  const isBooted = () =>
    inside("systemctl", "is-system-running", "--wait").then(
      () => true,
      // "degraded": a unit of Debian's may not run in a container.
      ({ stdout }: { stdout?: string }) => stdout?.startsWith("degraded") ?? false,
    );
  await until(isBooted, { details: () => printed });

  return {
    run: inside,
    property: async (name) =>
      (await inside("systemctl", "show", "--value", `--property=${name}`, UNIT)).trim(),
    configure: (changed) => writeFile(configPath, changed),
    async stop() {
      container.kill("SIGKILL");
      await processEnded(container);
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Returns the child process that is systemd, once there is one. */
async function systemdUnder(pid: number | undefined): Promise<string | undefined> {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ");
  for (const child of children) {
    const name = await readFile(`/proc/${child}/comm`, "utf8").catch(() => "");
    if (name === "systemd\n") return child;
  }
  return undefined;
}

/** Packs jobgate and unpacks it into `/opt/jobgate`, with the packages that it runs on. */
async function installPackage(root: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-pack-"));
  const home = join(root, "opt/jobgate");
  const quiet = ["--loglevel=error", "--no-audit", "--no-fund", "--ignore-scripts"];
  await mkdir(home);
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder, ...quiet], {
    cwd: ROOT,
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  await run("tar", ["-xzf", join(folder, filename), "--strip-components=1", "-C", home]);
  await run("npm", ["install", "--omit=dev", "--prefer-offline", ...quiet], { cwd: home });
  await rm(folder, { recursive: true });
}
