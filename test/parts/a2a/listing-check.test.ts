import { expect, it } from "vitest";
import { runHereWith } from "../../commands/operator-commands.ts";

/** Lines about the agent card of `jobgate check --listing`. */
async function listing(publicUrl: string, a2a = "[a2a]\nenabled = true\n") {
  const config = `service_id = 1
${a2a}
[x402]
public_url = "${publicUrl}"
facilitator_url = "https://facilitator.example.com"
[[x402.accepted_tokens]]
network = "base"
token = "USDC"
pay_to = "0x1111111111111111111111111111111111111111"
[[jobs]]
job_index = 0
name = "whole"
description = "Does it."
tags = ["math"]
input = { content_type = "text/plain", example = "a.txt" }
mode = "public_paid"
price = "$1"
[[jobs]]
job_index = 1
name = "bare"
mode = "public_paid"
price = "$1"
[[jobs]]
job_index = 2
name = "off"
mode = "disabled"
price = "$1"
`;
  const files = { "jobgate.toml": config, "a.txt": "a" };
  const { code, stdout } = await runHereWith(["check", "--listing"], { files });
  expect(code).toBe(0);
  return stdout.split("\n").filter((line) => line.startsWith("agent card"));
}

it("The agent card is named with what it lacks, and needs a public URL that agents reach", async () => {
  expect(await listing("https://jobs.example.com")).toEqual([
    "agent card: registries of agents read https://jobs.example.com/.well-known/agent-card.json",
    "agent card: shows less of bare: it has no description",
    "agent card: shows less of bare: it has no tags",
    "agent card: shows less of bare: it has no input.example",
  ]);
  expect(await listing("http://127.0.0.1:8402")).toEqual([
    "agent card: no registry of agents would read it: public_url is http://127.0.0.1:8402; expected https and a host that the internet knows",
  ]);
  expect(await listing("https://10.0.0.5/shop")).toEqual([
    "agent card: no registry of agents would read it: public_url is https://10.0.0.5/shop; expected a host that the internet knows and no path",
  ]);
  expect(await listing("https://jobs.example.com", "")).toEqual([]);
});
