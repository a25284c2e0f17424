import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { until } from "../helpers/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Image that deploy/docker/Dockerfile begins with. Here it is made of Debian's packages, and of Node and npm from npm. */
const BASE_IMAGE = "node:22-bookworm-slim";
const NODE_PACKAGES = { node: `node-linux-${process.arch}@22`, npm: "npm@10" };
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

const run = promisify(execFile);

/** A Docker engine with its own images, containers and networks. */
export interface Docker {
  /** Address by which containers reach this machine. */
  readonly gateway: string;
  /** Runs `docker`, and gives what it printed on both streams. */
  docker(...args: readonly string[]): Promise<string>;
  /** Runs `docker-compose` in deploy/docker. */
  compose(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<string>;
  /** Leads containers to a port of 127.0.0.1: over TLS, which they trust, or as it is. @returns the host and port for them */
  lead(port: number, by: "tls" | "tcp"): Promise<string>;
  stop(): Promise<void>;
}

export async function startDocker(): Promise<Docker> {
  // Not in memory: images are large.
  const folder = await mkdtemp("/var/tmp/jobgate-docker-");
  const host = `unix://${folder}/socket`;
  const engine = spawnTethered({
    command: "dockerd",
    args: [
      ...["--host", host, "--data-root", `${folder}/data`, "--exec-root", `${folder}/exec`],
      ...["--pidfile", `${folder}/pid`],
    ],
  });
  let printed = "";
  for (const stream of [engine.stdout, engine.stderr])
    stream.on("data", (chunk: Buffer) => {
      printed = (printed + chunk.toString()).slice(-5_000);
    });
  const env = {
    ...process.env,
    // Of several clients, Debian's builds with the engine of Debian.
    PATH: `/usr/bin:${process.env.PATH}`,
    DOCKER_HOST: host,
    DOCKER_BUILDKIT: "1",
    COMPOSE_DOCKER_CLI_BUILD: "1",
  };
  const execute = async (command: string, args: readonly string[], more: NodeJS.ProcessEnv, cwd: string) => {
    const options = { cwd, env: { ...env, ...more }, maxBuffer: MAX_OUTPUT_BYTES };
    const { stdout, stderr } = await run(command, args, options);
    return stdout + stderr;
  };
  const docker = (...args: readonly string[]) => execute("docker", args, {}, ROOT);
  await until(
    () =>
      docker("info").then(
        () => true,
        () => false,
      ),
    { details: () => printed },
  );
  const gateway = (
    await docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
  ).trim();
  const certificates = await makeCertificates({ server: { names: `IP:${gateway}` } });
  const [cert, key, authority] = await Promise.all(
    ["server.pem", "server.key", "authority.pem"].map((name) => readFile(certificates.file(name))),
  );
  await makeBaseImage(folder, authority as Buffer, docker);
  const servers: Server[] = [];
  const sockets = new Set<Socket>();

  return {
    gateway,
    docker,
    compose: (variables, ...args) => execute("docker-compose", args, variables, join(ROOT, "deploy/docker")),
    async lead(port, by) {
      const accept = (client: Socket) => {
        const server = connect(port, "127.0.0.1");
        for (const socket of [client, server]) {
          sockets.add(socket);
          socket.on("error", () => undefined);
        }
        client.pipe(server).pipe(client);
      };
      const listener =
        by === "tls"
          ? createTlsServer({ cert, key } as { cert: Buffer; key: Buffer }, accept)
          : createTcpServer(accept);
      await new Promise<void>((resolve) => listener.listen(0, gateway, resolve));
      servers.push(listener);
      const address = listener.address();
      return `${gateway}:${(address as { port: number }).port}`;
    },
    async stop() {
      for (const server of servers) server.close();
      for (const socket of sockets) socket.destroy();
      await certificates.stop();
      // It stops its containers first.
      engine.kill("SIGTERM");
      await processEnded(engine);
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Makes the base image, which trusts an authority and those of this machine. */
async function makeBaseImage(
  folder: string,
  authority: Buffer,
  docker: (...args: readonly string[]) => Promise<string>,
): Promise<void> {
  const root = join(folder, "base");
  await run("mmdebstrap", ["--quiet", "--variant=minbase", "--include=libstdc++6", "bookworm", root]);
  for (const [name, spec] of Object.entries(NODE_PACKAGES)) {
    const unpacked = join(folder, name);
    await mkdir(unpacked);
    const { stdout } = await run("npm", ["pack", "--silent", "--pack-destination", unpacked, spec]);
    await run("tar", ["-xzf", join(unpacked, stdout.trim()), "--strip-components=1", "-C", unpacked]);
  }
  await copyFile(join(folder, "node/bin/node"), join(root, "usr/local/bin/node"));
  await chmod(join(root, "usr/local/bin/node"), 0o755);
  await run("cp", ["-r", join(folder, "npm"), join(root, "usr/local/lib/npm")]);
  const npm = join(root, "usr/local/bin/npm");
  await writeFile(npm, '#!/bin/sh\nexec node /usr/local/lib/npm/bin/npm-cli.js "$@"\n', { mode: 0o755 });
  const ours = process.env.NODE_EXTRA_CA_CERTS;
  const known = ours === undefined ? "" : await readFile(ours, "utf8");
  await writeFile(join(root, "etc/authorities.pem"), `${known}\n${authority}`);
  await run("chroot", [root, "useradd", "--uid", "1000", "--create-home", "node"]);
  const archive = join(folder, "base.tar");
  await run("tar", ["-cf", archive, "-C", root, "."]);
  const trusts = "ENV NODE_EXTRA_CA_CERTS=/etc/authorities.pem";
  await docker("import", "--change", trusts, archive, BASE_IMAGE);
  await rm(root, { recursive: true });
  await rm(archive);
}
