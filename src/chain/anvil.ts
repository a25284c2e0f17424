import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { processEnded, spawnTethered, type TetheredProcess } from "../node/tethered-process.ts";
import { Rpc } from "./rpc.ts";

const START_TIMEOUT_MS = 50_000;
const RPC_TIMEOUT_MS = 10_000;
/** Limit on the kept output of a node that fails, in characters. */
const MAX_PRINTED = 10_000;
/** Version that jobgate is tested with. */
const ANVIL = "@foundry-rs/anvil@1.7.1";

/** anvil is not installed. */
export class NoAnvil extends Error {
  override readonly name = "NoAnvil";

  constructor() {
    super(
      [
        `The local chain needs ${ANVIL}, which is not installed (it exists for Linux and macOS, on x64 and arm64).`,
        `Install it with: npm install --no-save ${ANVIL}`,
      ].join("\n"),
    );
  }
}

/**
 * Starts anvil on 127.0.0.1, in a process that cannot outlive this one. anvil mines a block for each transaction at
 * once, unless its arguments select another way.
 * @throws NoAnvil when anvil is not installed. Another error, with the output of anvil, when anvil does not start
 */
export async function startChain(options: {
  readonly chainId: number;
  /** Port of the chain. 0 lets the system choose a free port. */
  readonly port: number;
  readonly extraArgs?: readonly string[];
}) {
  const { chainId, port: wanted, extraArgs = [] } = options;
  const child = spawnTethered({
    command: anvilProgram(),
    args: ["--host", "127.0.0.1", "--port", String(wanted), "--chain-id", String(chainId), ...extraArgs],
    // Ctrl-C must stop the gateway first, because the gateway may be settling.
    detached: true,
  });
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await processEnded(child);
  };
  try {
    const port = await listeningPort(child);
    const rpcUrl = `http://127.0.0.1:${port}`;
    return { rpcUrl, port, rpc: new Rpc({ rpcUrl, timeoutMs: RPC_TIMEOUT_MS }), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Finds the binary inside the platform's package, which is installed beside jobgate or in the working directory. The
 * package's script would take 0.3 s longer, and could fall back to a download.
 */
function anvilProgram(): string {
  const arch = { x64: "amd64", arm64: "arm64" }[process.arch as string];
  const binary = `@foundry-rs/anvil-${process.platform}-${arch}/bin/anvil`;
  const folders = [import.meta.url, join(process.cwd(), "package.json")];
  for (const folder of folders) {
    const require = createRequire(folder);
    for (const from of ["", "@foundry-rs/anvil/package.json"]) {
      try {
        return (from === "" ? require : createRequire(require.resolve(from))).resolve(binary);
      } catch {
        // The package is not installed there.
      }
    }
  }
  throw new NoAnvil();
}

/** Reads the port from the line that anvil prints once it accepts connections. */
function listeningPort(child: TetheredProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let printed = "";
    const fail = (what: string): void => {
      clearTimeout(timer);
      reject(new Error(`anvil ${what}:\n${printed.slice(-2000)}`));
    };
    const timer = setTimeout(() => fail(`did not start within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS);
    child.once("error", (error) => fail(`could not be started (${error.message})`));
    child.once("close", (code) => fail(`ended with code ${code}`));
    child.stderr.on("data", (chunk) => {
      if (printed.length < MAX_PRINTED) printed += chunk;
    });
    // The output is read to the end, because anvil logs every request, and a full pipe would stop it.
    createInterface({ input: child.stdout }).on("line", (line) => {
      const port = /^Listening on .*:(\d+)$/.exec(line)?.[1];
      if (port === undefined) {
        if (printed.length < MAX_PRINTED) printed += `${line}\n`;
        return;
      }
      clearTimeout(timer);
      resolve(Number(port));
    });
  });
}
