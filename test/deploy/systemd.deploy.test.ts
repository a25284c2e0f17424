import { createHmac, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { freePort } from "../helpers/free-port.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { bootDebian } from "./systemd-container.ts";

const SECRETS = {
  RUNNER_TOKEN: randomBytes(16).toString("hex"),
  OPERATOR_TOKEN: randomBytes(16).toString("hex"),
  ALERTS_SECRET: randomBytes(16).toString("hex"),
  PAY_TO: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
};
const PORTS = ["8402", "8403", "8405", "9090"] as const;

/** Ports of this machine, for the listeners of the example. */
const ports = new Map<string, number>();
let config = "";
const debian = startBeforeAll(async () => {
  const example = await readFile(new URL("../../deploy/systemd/jobgate.toml", import.meta.url), "utf8");
  for (const port of PORTS) ports.set(port, await freePort());
  config = PORTS.reduce(
    (text, port) => text.replace(`127.0.0.1:${port}`, `127.0.0.1:${ports.get(port)}`),
    example,
  );
  return bootDebian(config, SECRETS);
});

const urlOf = (port: (typeof PORTS)[number], path: string) => `http://127.0.0.1:${ports.get(port)}${path}`;
const ready = () =>
  fetch(urlOf("8405", "/readyz")).then(
    ({ status }) => status,
    () => 0,
  );

function sendAlert(body: string, path = "/hooks/alerts") {
  const signature = createHmac("sha256", SECRETS.ALERTS_SECRET).update(body).digest("hex");
  return fetch(urlOf("9090", path), {
    ...{ method: "POST", body },
    headers: { "x-signature-256": `sha256=${signature}`, "x-hub-signature-256": `sha256=${signature}` },
  });
}

it("systemd starts jobgate at boot, as a user of its own", async () => {
  await expect.poll(ready).toBe(200);
  expect(await debian.property("ActiveState")).toBe("active");
  const uid = (await debian.run("stat", "-c", "%u", `/proc/${await debian.property("MainPID")}`)).trim();
  expect(Number(uid)).toBeGreaterThan(60_000);
});

it("A JobCall that was accepted outlives kill -9, after which systemd starts jobgate again", async () => {
  await expect.poll(ready).toBe(200);
  expect((await sendAlert("before the kill")).status).toBe(202);
  const pid = await debian.property("MainPID");
  await debian.run("kill", "-KILL", pid);
  await expect.poll(() => debian.property("MainPID")).not.toMatch(new RegExp(`^(0|${pid})$`));
  await expect.poll(ready).toBe(200);
  const bodies: string[] = [];
  const runner = await startRunner({
    ...{ address: `127.0.0.1:${ports.get("8403")}`, token: SECRETS.RUNNER_TOKEN },
    handle(call) {
      bodies.push(Buffer.from(call.body).toString());
      return { body: Buffer.from("done") };
    },
  });
  await expect.poll(() => bodies).toEqual(["before the kill"]);
  await runner.stop();
});

it("A reload applies another configuration, and a stop ends in order", async () => {
  await expect.poll(ready).toBe(200);
  await debian.configure(config.replace("/hooks/alerts", "/hooks/others"));
  await debian.run("systemctl", "reload", "jobgate");
  await expect.poll(async () => (await sendAlert("an alert", "/hooks/others")).status).toBe(202);
  await debian.run("systemctl", "stop", "jobgate");
  expect(await debian.property("Result")).toBe("success");
  await debian.run("systemctl", "start", "jobgate");
  await expect.poll(ready).toBe(200);
});

it("A configuration with a mistake keeps jobgate from starting, and the journal names the mistake", async () => {
  await debian.configure(config.replace('price = "$0.01"', 'price = "cheap"'));
  await debian.run("systemctl", "stop", "jobgate");
  await debian.run("systemctl", "start", "jobgate").catch(() => undefined);
  await expect
    .poll(() => debian.run("journalctl", "--unit=jobgate", "--output=cat", "--lines=50"))
    .toContain("price");
  expect(await ready()).toBe(0);
  await debian.configure(config);
  await debian.run("systemctl", "restart", "jobgate");
  await expect.poll(ready).toBe(200);
});
