import { chmod, lstat, mkdtemp, rename, rm } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join } from "node:path";

const PROBE_TIMEOUT_MS = 1_000;
/** Capacity of the operating system's `sockaddr_un`, less its terminating zero. */
const MAX_PATH_BYTES = process.platform === "linux" ? 107 : 103;
/** Length of `/.`, the six characters of mkdtemp, and `/s`. */
const PRIVATE_NAME_BYTES = 10;

/** A bound socket file that only its owner can open. */
export interface UnixSocketFile {
  /** Removes the file, unless another process has replaced it. */
  remove(): Promise<void>;
}

/**
 * Binds a Unix socket with mode 0600. Binds it in a private folder and then moves it into place, so that others can
 * never connect, and the file of a process that died is replaced in one step.
 * @param bind listens on the given path
 * @throws when another process listens on the path, or the path holds something other than a socket
 */
export async function bindUnixSocket(
  path: string,
  bind: (path: string) => Promise<void>,
): Promise<UnixSocketFile> {
  const parent = dirname(path);
  // The path in the private folder may be the longer of the two.
  const longest = Math.max(Buffer.byteLength(path), Buffer.byteLength(parent) + PRIVATE_NAME_BYTES);
  if (longest > MAX_PATH_BYTES) {
    throw new Error(`${path} is too long for a Unix socket; expected at most ${MAX_PATH_BYTES} bytes`);
  }
  await assertFree(path);
  const folder = await mkdtemp(`${parent}/.`).catch((cause: unknown) => {
    throw new Error(`${path} cannot be created: is there a folder ${parent}, and may it be written?`, {
      cause,
    });
  });
  try {
    const privatePath = join(folder, "s");
    await bind(privatePath);
    await chmod(privatePath, 0o600);
    const { ino } = await lstat(privatePath);
    await rename(privatePath, path);
    return {
      async remove() {
        const current = await lstat(path).catch(() => undefined);
        if (current?.ino === ino) await rm(path, { force: true });
      },
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function assertFree(path: string): Promise<void> {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error(`${path} exists and is not a socket`);
  if (await isListening(path)) throw new Error(`Another process listens on ${path}`);
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.setTimeout(PROBE_TIMEOUT_MS, () => decide(true));
    socket.once("connect", () => decide(true));
    socket.once("error", (error: NodeJS.ErrnoException) =>
      decide(error.code !== "ECONNREFUSED" && error.code !== "ENOENT"),
    );
    function decide(listening: boolean): void {
      socket.destroy();
      resolve(listening);
    }
  });
}
