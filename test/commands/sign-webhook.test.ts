import { describe, expect, test } from "vitest";
import { runJobgate } from "./run-jobgate.ts";

const endpoint = (name: string, keys: string) =>
  `[[webhooks.endpoints]]\npath = "/hooks/${name}"\njob_id = 1\n${keys}\n`;
const files = {
  "jobgate.toml": [
    "service_id = 1",
    endpoint("github", 'auth = "hmac-sha256"\nsecret = "It\'s a Secret to Everybody"'),
    endpoint("open", ""),
  ].join("\n"),
  body: "Hello, World!",
};
const sign = (path: string) => runJobgate(["sign-webhook", "--endpoint", path, "--body", "body"], { files });

describe.concurrent("jobgate sign-webhook", () => {
  test("An HMAC is GitHub's own for GitHub's example", async () => {
    expect(await sign("/hooks/github")).toEqual({
      code: 0,
      stdout: "X-Signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\n",
      stderr: "",
    });
  });

  test("An endpoint without auth needs no header, which is said on stderr only", async () => {
    const { code, stdout, stderr } = await sign("/hooks/open");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(stderr).toContain("asks for no header");
  });

  test("An endpoint or a body that is not there is refused", async () => {
    const unknown = await sign("/hooks/other");
    expect({ code: unknown.code, stdout: unknown.stdout }).toEqual({ code: 1, stdout: "" });
    expect(unknown.stderr).toContain("/hooks/github, /hooks/open");
    const env = { JOBGATE_ENDPOINT: "/hooks/open", JOBGATE_BODY: "nothing" };
    const bodyless = await runJobgate(["sign-webhook"], { files, env });
    expect(bodyless).toEqual({ code: 1, stdout: "", stderr: "nothing cannot be read: no such file\n" });
  });
});
