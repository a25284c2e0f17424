import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/** Needs the `openssl` command: Node can read certificates but not make them. */
const openssl = (...args: string[]) => promisify(execFile)("openssl", args, { timeout: 50_000 });

/** `NAME.pem` and `NAME.key` of two authorities and of what they signed, in a folder. */
export interface Certificates {
  /** Returns the path of a file. */
  file(name: string): string;
  stop(): Promise<void>;
}

/** A certificate to make. */
interface Wanted {
  /** Default: `authority`. */
  readonly authority?: "authority" | "stranger";
  /** Default: this machine's. */
  readonly names?: string;
  /** Default: 2. An expired one has -1. */
  readonly days?: number;
}

/** Makes two authorities, `authority` and `stranger`, and certificates by their names. */
export async function makeCertificates(
  wanted: Readonly<Record<string, Wanted>> = {
    server: {},
    runner: {},
    impostor: { authority: "stranger" },
  },
): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-tls-"));
  const file = (name: string) => join(folder, name);
  async function makeAuthority(name: string): Promise<void> {
    const out = ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)];
    await openssl("req", "-x509", ...NEW_KEY, ...out, "-days", "2", "-subj", `/CN=${name}`);
  }
  async function makeCertificate(
    name: string,
    serial: number,
    { authority = "authority", names = "DNS:localhost,IP:127.0.0.1", days = 2 }: Wanted,
  ): Promise<void> {
    const request = ["-keyout", file(`${name}.key`), "-out", file(`${name}.csr`), "-subj", `/CN=${name}`];
    await openssl(...["req", "-new", ...NEW_KEY, ...request], ...["-addext", `subjectAltName=${names}`]);
    // Numbered here: OpenSSL keeps the next number in a file, which two of it would write at once.
    const numbered = ["-set_serial", String(serial)];
    const signer = ["-CA", file(`${authority}.pem`), "-CAkey", file(`${authority}.key`), ...numbered];
    const paths = ["-in", file(`${name}.csr`), "-out", file(`${name}.pem`)];
    const until = ["-days", String(days)];
    await openssl("x509", "-req", ...paths, ...signer, ...until, "-copy_extensions", "copy");
  }
  await Promise.all([makeAuthority("authority"), makeAuthority("stranger")]);
  await Promise.all(Object.entries(wanted).map(([name, how], i) => makeCertificate(name, i + 1, how)));
  return { file, stop: () => rm(folder, { recursive: true, force: true }) };
}
