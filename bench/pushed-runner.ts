import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Job whose JobCalls are pushed, and the path of its webhook. */
export const PUSHED_JOB = 2;
export const PUSHED_PATH = "/hooks/pushed";

/** A runner that JobCalls are pushed to, which answers each at once. */
export class PushedRunner {
  readonly #server: Server;
  /** Receives each body. */
  onBody: (body: Buffer) => void = () => undefined;

  private constructor() {
    this.#server = createServer((incoming, outgoing) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("end", () => {
        outgoing.writeHead(204).end();
        this.onBody(Buffer.concat(chunks));
      });
    });
  }

  static async start(): Promise<PushedRunner> {
    const runner = new PushedRunner();
    await new Promise<void>((resolve) => runner.#server.listen(0, "127.0.0.1", resolve));
    return runner;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
