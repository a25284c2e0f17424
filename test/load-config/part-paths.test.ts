import { expect, test } from "vitest";
import { loadConfig } from "../../src/load-config.ts";
import { partKeys } from "../../src/load-parts.ts";
import { TOKEN, X402 } from "../config/config-folder.ts";

/** Paths of parts, and one below each path that stands for those below it. */
const PATHS = {
  x402: [
    ...[
      "/a2a",
      "/.well-known/agent-card.json",
      "/mcp",
      "/mcp/server-card",
      "/.well-known/mcp/server-card.json",
      "/.well-known/mcp.json",
      "/openapi.json",
      "/llms.txt",
      "/favicon.svg",
      "/mpp/jobs",
    ],
    ...["/.well-known/x402.json", "/.well-known/agent-registration.json"],
    ...["/.well-known/x402", "/.well-known/did.json", "/.well-known/jobgate-keys.json"],
  ],
  operator: ["/healthz", "/readyz", "/metrics", "/page/app.js", "/jobgate.v1.OperatorService/GetStatus"],
} as const;

/** Mistakes of a file that sells a job at each path, with the operator at an address. */
async function mistakesAt(paths: readonly string[], operatorAddress: string) {
  const jobs = paths.map(
    (path) => `[[jobs]]\nroute = "GET ${path}"\nmode = "public_paid"\nprice_wei = "1"\n`,
  );
  const x402 = X402.replace("[x402]\n", '[x402]\nbind_address = "127.0.0.1:8402"\n');
  const toml = `operator.bind_address = "${operatorAddress}"\n${x402}${TOKEN}${jobs.join("")}`;
  const result = await loadConfig({ path: "jobgate.toml", toml, env: {} });
  const mistakes = result.ok ? [] : result.mistakes;
  return mistakes.filter(({ message }) => message.includes("one of jobgate itself")).length;
}

test("No job is sold at a path of a part, and none at the operator's where both share an address", async () => {
  const all = [...PATHS.x402, ...PATHS.operator];
  expect(await mistakesAt(all, "127.0.0.1:8402")).toBe(all.length);
  expect(await mistakesAt(all, "127.0.0.1:9090")).toBe(PATHS.x402.length);
});

test("Every path that a part declares is in this list", () => {
  for (const listener of ["x402", "operator"] as const)
    for (const path of partKeys().paths.flatMap((own) => own[listener] ?? []))
      expect(
        PATHS[listener].some((one) => one === path || (path.endsWith("/") && one.startsWith(path))),
      ).toBe(true);
});
