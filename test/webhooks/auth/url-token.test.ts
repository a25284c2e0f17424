import { pino } from "pino";
import { describe, expect, it } from "vitest";
import type { Intake } from "../../../src/store/contract/intake.ts";
import { WebhookGateway } from "../../../src/webhooks/gateway.ts";
import { rawRequest } from "../../helpers/raw-request.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { endpoint, LOCAL, named, startWebhooks, UNAUTHORIZED } from "../harness.ts";

const TOKEN = "s3cr3t-0123456789-token";
const auth = { mode: "url-token", secrets: named("next-0123456789-token", TOKEN) } as const;
const PATH = "/hooks/tradingview";

describe("url-token", () => {
  const webhooks = startBeforeAll(() => startWebhooks([endpoint(PATH, auth, { name: "TradingView" })]));

  it("a request with a token after the path is accepted, and the runner sees the path without it", async () => {
    for (const token of [TOKEN, "next-0123456789-token"]) {
      expect((await webhooks.post(`${PATH}/${token}`, {}, "buy")).status).toBe(202);
      expect(await webhooks.take()).toMatchObject([
        { body: Buffer.from("buy"), metadata: { "X-WEBHOOK-PATH": PATH, "X-WEBHOOK-NAME": "TradingView" } },
      ]);
    }
  });

  it("a token that is missing, wrong, in part, in another case or percent-encoded is refused", async () => {
    for (const path of [
      "",
      "/",
      "/other",
      `/${TOKEN.slice(0, -1)}`,
      `/${TOKEN}x`,
      `/${TOKEN.toUpperCase()}`,
      `/%73${TOKEN.slice(1)}`,
    ])
      expect([path, await webhooks.post(`${PATH}${path}`, {}, "buy")]).toMatchObject([path, UNAUTHORIZED]);
    expect(await webhooks.post(PATH, { authorization: `Bearer ${TOKEN}` }, "buy")).toMatchObject(
      UNAUTHORIZED,
    );
  });

  it("further path segments are 404, another method is 405", async () => {
    for (const path of [`${PATH}/${TOKEN}/`, `${PATH}/${TOKEN}/x`, `/hooks/${TOKEN}`])
      expect([path, (await webhooks.post(path, {}, "buy")).status]).toEqual([path, 404]);
    expect(await webhooks.get(`${PATH}/${TOKEN}`)).toMatchObject({ status: 405, headers: { allow: "POST" } });
  });

  it("the token is in no log, not even after an error", async () => {
    const lines: string[] = [];
    const logger = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
    const broken = { accept: () => Promise.reject(new Error("broken")) } as unknown as Intake;
    const gateway = new WebhookGateway({
      config: { bindAddress: LOCAL, maxBodyBytes: 10, endpoints: [endpoint(PATH, auth)] },
      ...{ serviceId: 1n, intake: broken, logger },
    });
    await gateway.start();
    const answers = [
      await rawRequest(`http://${gateway.address}`, `POST ${PATH}/${TOKEN}`, {}, "buy"),
      await rawRequest(`http://${gateway.address}`, `POST ${PATH}/${TOKEN}/`, {}, "buy"),
    ];
    await gateway.stop();
    expect(answers.map(({ status }) => status)).toEqual([500, 404]);
    expect(lines.join("")).toContain(PATH);
    expect(lines.join("") + answers.map(({ body }) => body).join("")).not.toContain(TOKEN);
  });
});
