import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { freePort } from "../helpers/free-port.ts";
import { until } from "../helpers/until.ts";

/** A proxy with TLS in front of jobgate, configured as in `deploy/`. */
export interface TlsProxy {
  readonly port: number;
  /** PEM file of the authority that signed its certificate. */
  readonly authority: string;
  /** Starts it, for the listeners of a jobgate. */
  start(jobgate: { x402Url: string; webhooksUrl: string; operatorUrl: string }): Promise<void>;
  stop(): Promise<void>;
}

interface Kind {
  /** Path in `deploy/`. */
  readonly example: string;
  /** Returns the example with the given port, certificate and folder for files. */
  place(example: string, where: { port: number; certificate: string; key: string; folder: string }): string;
  command(file: string, folder: string): readonly [string, ...string[]];
}

const KINDS = {
  nginx: {
    example: "nginx/jobgate.conf",
    place: (example, { port, certificate, key, folder }) => `
daemon off;
user root;
pid ${folder}/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`).join("\n  ")}
  ${example
    .replace("listen 443", `listen 127.0.0.1:${port}`)
    .replace("jobs.example.com", "localhost")
    .replace("/etc/ssl/jobgate/server.pem", certificate)
    .replace("/etc/ssl/jobgate/server.key", key)}
}`,
    command: (file) => ["nginx", "-c", file],
  },
  caddy: {
    example: "caddy/Caddyfile",
    place: (example, { port, certificate, key }) => `
{
	admin off
	auto_https disable_redirects
}
${example.replace("jobs.example.com {", `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls ${certificate} ${key}`)}`,
    command: (file) => ["caddy", "run", "--adapter", "caddyfile", "--config", file],
  },
} satisfies Readonly<Record<string, Kind>>;

export type ProxyKind = keyof typeof KINDS;
export const PROXY_KINDS = Object.keys(KINDS) as ProxyKind[];

export async function prepareTlsProxy(name: ProxyKind): Promise<TlsProxy> {
  const kind: Kind = KINDS[name];
  const certificates = await makeCertificates({ server: {} });
  const [folder, port] = [await mkdtemp(join(tmpdir(), "jobgate-proxy-")), await freePort()];
  let end = async (): Promise<void> => {};

  return {
    port,
    authority: certificates.file("authority.pem"),
    async start({ x402Url, webhooksUrl, operatorUrl }) {
      const example = await readFile(new URL(`../../deploy/${kind.example}`, import.meta.url), "utf8");
      const listeners = { 8402: x402Url, 9090: webhooksUrl, 8405: operatorUrl };
      const led = Object.entries(listeners).reduce(
        (text, [from, url]) => text.replace(`127.0.0.1:${from}`, new URL(url).host),
        example,
      );
      const file = join(folder, "configuration");
      const [certificate, key] = [certificates.file("server.pem"), certificates.file("server.key")];
      await writeFile(file, kind.place(led, { port, certificate, key, folder }));
      const [command, ...args] = kind.command(file, folder);
      const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
      const child = spawnTethered({ command, args, cwd: folder, env });
      let printed = "";
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (chunk: Buffer) => {
          printed = (printed + chunk.toString()).slice(-5_000);
        });
      end = async () => {
        // nginx's workers end with a master that is asked to stop.
        child.kill("SIGTERM");
        await processEnded(child);
      };
      await until(() => answers(port), { details: () => printed });
    },
    async stop() {
      await end();
      await certificates.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
