import { sign } from "@octokit/webhooks-methods";
import { expect, test } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";
import { describeSignedSender } from "./signed-senders.ts";

const webhooks = startBeforeAll(() => startWebhooks([]));

describeSignedSender("github", () => webhooks, {
  auth: (secrets) => ({ mode: "github", secrets }),
  secret: "It's a Secret to Everybody",
  otherSecret: "another",
  sign: async (body, secret) => ({ "X-Hub-Signature-256": await sign(secret, body) }),
  signatureHeader: "X-Hub-Signature-256",
  needs: ["X-Hub-Signature-256"],
});

test("GitHub's published example is accepted, and SHA-1, other headers and a bare digest are not", async () => {
  const auth = { mode: "github", secrets: named("It's a Secret to Everybody") } as const;
  webhooks.use([endpoint("/a", auth)]);
  const hex = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
  const send = (name: string, value: string) => webhooks.post("/a", { [name]: value }, "Hello, World!");
  expect((await send("X-Hub-Signature-256", `sha256=${hex}`)).status).toBe(202);
  expect(await send("X-Hub-Signature-256", hex)).toMatchObject(UNAUTHORIZED);
  expect(await send("X-Signature-256", `sha256=${hex}`)).toMatchObject(UNAUTHORIZED);
  expect(await send("X-Hub-Signature", `sha256=${hex}`)).toMatchObject(UNAUTHORIZED);
});
