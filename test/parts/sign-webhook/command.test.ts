import { describe, expect, test } from "vitest";
import { runHereWith } from "../../commands/operator-commands.ts";

const endpoint = (name: string, keys: string) =>
  `[[webhooks.endpoints]]\npath = "/hooks/${name}"\njob_id = 1\n${keys}\n`;
const files = {
  "jobgate.toml": [
    "service_id = 1",
    endpoint("github", 'auth = "hmac-sha256"\nsecret = "It\'s a Secret to Everybody"'),
    endpoint("open", ""),
    endpoint("hub", 'auth = "github"\nsecrets = ["It\'s a Secret to Everybody", "old"]'),
    endpoint("stripe", 'auth = "stripe"\nsecret = "whsec_test"'),
    endpoint(
      "public",
      'auth = "standard-webhooks"\nsecret = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="',
    ),
    endpoint("key", 'auth = "api-key"\napi_key_header = "X-Gitlab-Token"\nsecret = "k3y"'),
    endpoint("token", 'auth = "url-token"\nsecret = "0123456789abcdef"'),
  ].join("\n"),
  body: "Hello, World!",
};
const sign = (path: string, ...more: string[]) =>
  runHereWith(["sign-webhook", "--endpoint", path, "--body", "body", ...more], {
    files,
    env: {
      PRIVATE:
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==",
      WRONG: "hunter2",
    },
  });

describe("jobgate sign-webhook", () => {
  test("The HMAC of GitHub's example is the HMAC that GitHub documents", async () => {
    expect(await sign("/hooks/github")).toEqual({
      code: 0,
      stdout: "X-Signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\n",
      stderr: "",
    });
  });

  test("Prints an API key's header in the letter case of the configuration", async () => {
    expect((await sign("/hooks/key")).stdout).toBe("X-Gitlab-Token: k3y\n");
  });

  test("Says on stderr that an endpoint without auth needs no header", async () => {
    const { code, stdout, stderr } = await sign("/hooks/open");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(stderr).toContain("needs no header");
  });

  test("Refuses an unknown endpoint and a missing body file", async () => {
    const unknown = await sign("/hooks/other");
    expect({ code: unknown.code, stdout: unknown.stdout }).toEqual({ code: 1, stdout: "" });
    expect(unknown.stderr).toContain("/hooks/github, /hooks/open, /hooks/hub");
    const env = { JOBGATE_ENDPOINT: "/hooks/open", JOBGATE_BODY: "nothing" };
    const bodyless = await runHereWith(["sign-webhook"], { files, env });
    expect(bodyless).toEqual({ code: 1, stdout: "", stderr: "nothing cannot be read: no such file\n" });
  });

  test("Prints a provider's headers with a delivery ID, signed with the first secret", async () => {
    const hub =
      "X-Hub-Signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const { stdout } = await sign("/hooks/hub", "--delivery-id", "d-1");
    expect(stdout).toBe(`${hub}\nX-GitHub-Delivery: d-1\n`);
    expect((await sign("/hooks/stripe")).stdout).toMatch(/^Stripe-Signature: t=\d{10},v1=[0-9a-f]{64}\n$/);
  });

  test("Prints the path of a url-token endpoint", async () => {
    const { code, stdout, stderr } = await sign("/hooks/token");
    expect({ code, stdout }).toEqual({ code: 0, stdout: "/hooks/token/0123456789abcdef\n" });
    expect(stderr).toContain("its secret is part of the path");
  });

  test("Signs for an endpoint with a public key only if it gets the private key", async () => {
    const { code, stdout } = await sign("/hooks/public", "--key", "env:PRIVATE");
    expect(code).toBe(0);
    expect(stdout).toMatch(/webhook-signature: v1a,[A-Za-z0-9+/]{86}==\n/);
    for (const [key, message] of [
      [[], "private key signs (--key env:NAME)"],
      [["--key", "env:WRONG"], "not whsk_ and base64"],
      [["--key", "env:MISSING"], "MISSING is not set"],
    ] as const) {
      const refused = await sign("/hooks/public", ...key);
      expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code: 1, stdout: "" });
      expect(refused.stderr).toContain(message);
    }
  });

  test("A --key that is not env:NAME is bad usage, as for sign-caller, and is not repeated", async () => {
    for (const path of ["/hooks/public", "/hooks/nowhere"]) {
      const refused = await sign(path, "--key", "hunter2");
      expect(refused).toMatchObject({ code: 2, stdout: "" });
      expect(refused.stderr).toBe("error: --key: expected env:NAME, never the key itself.\n");
    }
  });

  test("Refuses a delivery ID that the endpoint would refuse", async () => {
    for (const id of ["evt.1", "2026.11.21-a.7"]) {
      const refused = await sign("/hooks/public", "--key", "env:PRIVATE", "--delivery-id", id);
      expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code: 1, stdout: "" });
      expect(refused.stderr).toContain("expected an id without dots");
    }
    expect((await sign("/hooks/public", "--key", "env:PRIVATE", "--delivery-id", "evt.a")).code).toBe(0);
  });
});
