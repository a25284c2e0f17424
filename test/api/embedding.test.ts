import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
/** Inside the package, so that it finds `jobgate` by its own name, as a program that depends on it would. */
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(`${ROOT}dist/embedding-`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the package, as other programs import it", () => {
  it("exports both gateways and the store by the names of its manifest", async () => {
    const script = `
      const [x402, webhooks, store] = await Promise.all([
        import("jobgate/x402"), import("jobgate/webhooks"), import("jobgate/store"),
      ]);
      console.log(typeof x402.X402Gateway, typeof webhooks.WebhookGateway, typeof store.openStore);`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: ROOT });
    expect(stdout.trim()).toBe("function function function");
  });

  it("runs the program of docs/embedding.md as it is written, and a webhook of it is accepted", async () => {
    const documented =
      /```js\n([\s\S]*?)```/.exec(await readFile(`${ROOT}docs/embedding.md`, "utf8"))?.[1] ?? "";
    const program = documented
      .replace("port: 9090", "port: 0")
      .replace("sqlite:jobs.db", `sqlite:${folder}/jobs.db`)
      .replace(
        "await gateway.stop();",
        `const answer = await fetch("http://" + gateway.address + "/hooks/alerts", { method: "POST", body: "x" });
         console.log(answer.status, await answer.text());
         await gateway.stop();`,
      );
    await writeFile(`${folder}/program.mjs`, program);
    const { stdout } = await run(process.execPath, [`${folder}/program.mjs`]);
    expect(stdout).toContain('202 {"status":"accepted","job_id":30,"call_id":1}');
  });
});
