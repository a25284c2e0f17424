import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { EVM_NETWORK_CHAIN_ID_MAP } from "@x402/evm/v1";
import { expect, it } from "vitest";
import { v1NetworkName } from "../../src/parts/version-1/version-1.ts";
import { accounts } from "../helpers/accounts.ts";
import { listenHttp } from "../helpers/http-listener.ts";

// Installed apart, by `npm ci --prefix test/interop/x402-v1`.
const CLIENT_FOLDER = fileURLToPath(new URL("x402-v1/", import.meta.url));
const run = promisify(execFile);

it("Offers in version 1 name exactly the networks that its client and the current library both know", async () => {
  const script =
    'import { NetworkSchema } from "x402/types"; console.log(JSON.stringify(NetworkSchema.options));';
  const { stdout } = await run("node", ["--input-type=module", "--eval", script], { cwd: CLIENT_FOLDER });
  const knownToClient = JSON.parse(stdout) as string[];
  const both = Object.keys(EVM_NETWORK_CHAIN_ID_MAP).filter((name) => knownToClient.includes(name));
  const offered = Object.values(EVM_NETWORK_CHAIN_ID_MAP).flatMap(
    (id) => v1NetworkName(`eip155:${id}`) ?? [],
  );
  expect(offered).toEqual(both);
  expect(offered).toContain("base-sepolia");
});

it("The version 1 client reads past the fields that jobgate adds to a 402, and pays", async () => {
  const payments: unknown[] = [];
  const server = await listenHttp({
    handler: (request, response) => {
      request.resume();
      const payment = request.headers["x-payment"];
      if (payment !== undefined) {
        payments.push(JSON.parse(Buffer.from(String(payment), "base64").toString()));
        response.writeHead(202).end("accepted");
        return;
      }
      const offer = {
        scheme: "exact",
        network: "base-sepolia",
        maxAmountRequired: "3264000",
        resource: "https://operator.example.com/x402/jobs/1/0",
        description: "Returns a summary.",
        mimeType: "application/json",
        outputSchema: {
          input: {
            discoverable: true,
            type: "http",
            method: "POST",
            bodyType: "json",
            body: { text: "abc" },
          },
          output: { type: "text", format: "text/plain" },
        },
        payTo: accounts.payTo.address,
        maxTimeoutSeconds: 300,
        asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        extra: { name: "USDC", version: "2" },
      };
      const added = {
        code: "payment_required",
        charged: false,
        retryable: false,
        service_id: 1,
        job_index: 0,
      };
      response
        .writeHead(402, { "content-type": "application/json" })
        .end(JSON.stringify({ x402Version: 1, error: "payment required", accepts: [offer], ...added }));
    },
  });
  try {
    const { privateKey, address } = accounts.payer;
    const { stdout } = await run("node", ["pay.mjs", server.url, privateKey, "5000000", "hello"], {
      cwd: CLIENT_FOLDER,
    });
    expect(JSON.parse(stdout)).toMatchObject({ status: 202, body: "accepted" });
    expect(payments).toMatchObject([
      {
        x402Version: 1,
        network: "base-sepolia",
        payload: { authorization: { from: address, value: "3264000" } },
      },
    ]);
  } finally {
    await server.stop();
  }
});

it("The version 1 client's lock file names no registry", async () => {
  expect(await readFile(`${CLIENT_FOLDER}package-lock.json`, "utf8")).not.toContain('"resolved"');
});
