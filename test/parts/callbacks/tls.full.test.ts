import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { processEnded, spawnTethered } from "../../../src/node/tethered-process.ts";
import { bundledScript } from "../../helpers/bundle.ts";
import { makeCertificates } from "../../helpers/certificates.ts";
import { startNameServer } from "../../helpers/name-server.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const DOMAIN = "buyer.example";
const certificates = startBeforeAll(() =>
  makeCertificates({
    good: { names: `DNS:good.${DOMAIN}` },
    expired: { names: `DNS:expired.${DOMAIN}`, days: -1 },
    impostor: { names: `DNS:impostor.${DOMAIN}`, authority: "stranger" },
  }),
);

/** Addresses of the names; 127.0.0.1 stands for a public one. */
const NAMES = {
  good: ["127.0.0.1"],
  other: ["127.0.0.1"],
  expired: ["127.0.0.1"],
  impostor: ["127.0.0.1"],
  inside: ["10.0.0.1"],
  mixed: ["127.0.0.1", "fd00::1"],
};

test("A buyer is called at the address of the URL's name, over TLS that a known authority vouches for", async () => {
  const pair = (name: string) => ({
    cert: readFileSync(certificates.file(`${name}.pem`)),
    key: readFileSync(certificates.file(`${name}.key`)),
  });
  const called: string[] = [];
  const server = createServer(pair("good"), (request, response) => {
    called.push(request.headers.host ?? "");
    request.resume();
    response.writeHead(204).end();
  });
  for (const name of ["expired", "impostor"]) server.addContext(`${name}.${DOMAIN}`, pair(name));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const known = Object.entries(NAMES).map(([name, addresses]) => [`${name}.${DOMAIN}`, addresses] as const);
  const names = await startNameServer(Object.fromEntries(known));
  onTestFinished(() => names.stop());

  const hosts = [...known.map(([host]) => host), `unknown.${DOMAIN}`];
  const script = fileURLToPath(new URL("./calling-process.ts", import.meta.url));
  const calling = spawnTethered({
    command: process.execPath,
    args: [bundledScript(`import "${script}";`), names.address, String(port), ...hosts],
    env: { NODE_EXTRA_CA_CERTS: certificates.file("authority.pem") },
  });
  onTestFinished(async () => {
    calling.kill("SIGKILL");
    await processEnded(calling);
  });
  const notPublic = "its name resolves to an address that is not public";
  expect(JSON.parse(await text(calling.stdout))).toEqual({
    [`good.${DOMAIN}`]: "sent",
    [`other.${DOMAIN}`]: "ERR_TLS_CERT_ALTNAME_INVALID",
    [`expired.${DOMAIN}`]: "CERT_HAS_EXPIRED",
    [`impostor.${DOMAIN}`]: "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    [`inside.${DOMAIN}`]: notPublic,
    [`mixed.${DOMAIN}`]: notPublic,
    [`unknown.${DOMAIN}`]: "ENOTFOUND",
  });
  expect(called).toEqual([`good.${DOMAIN}:${port}`]);
  expect([...names.asked].sort()).toEqual(hosts.toSorted());
});
