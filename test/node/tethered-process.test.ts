import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { bundledScript } from "../helpers/bundle.ts";

const SERVER = `const server = require("node:http").createServer((_, response) => response.end());
server.listen(0, "127.0.0.1", () => console.log(server.address().port));`;

it("A tethered process ends when its starter is killed without a chance to clean up", async () => {
  const starter = spawn(
    process.execPath,
    [
      bundledScript(`import { spawnTethered } from "./src/node/tethered-process.ts";
        const child = spawnTethered({ command: process.execPath, args: ["-e", ${JSON.stringify(SERVER)}] });
        child.stdout.pipe(process.stdout);`),
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const [port] = (await once(starter.stdout, "data", { signal: AbortSignal.timeout(50_000) })) as [Buffer];
  const url = `http://127.0.0.1:${port.toString().trim()}`;
  expect((await fetch(url)).status).toBe(200);

  starter.kill("SIGKILL");
  await once(starter, "exit");
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  await expect.poll(answers).toBe(false);
});

it("A signal and the exit code are the command's own", async () => {
  const stopped = spawnTethered({ command: process.execPath, args: ["-e", SERVER] });
  await once(stopped.stdout, "data");
  stopped.kill("SIGTERM");
  await processEnded(stopped);
  expect(stopped.signalCode).toBe("SIGTERM");

  const ended = spawnTethered({ command: process.execPath, args: ["-e", "process.exitCode = 7"] });
  await processEnded(ended);
  expect(ended.exitCode).toBe(7);
});
