import { describe, expect, it } from "vitest";
import { ExtensionRejections, readExtensionResponses } from "../../../src/x402/facilitators/facilitator.ts";
import { accounts } from "../../helpers/accounts.ts";
import { base64Json } from "../../helpers/clients.ts";
import { type HttpListener, listenHttp } from "../../helpers/http-listener.ts";
import { startLog } from "../../helpers/log.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTestGateway } from "../gateway-harness.ts";
import { JOB } from "../payments.ts";

const REJECTED = base64Json({ bazaar: { status: "rejected", rejectedReason: "no schema" } });

const facilitator = startBeforeAll<HttpListener>(() =>
  listenHttp({
    handler: (request, response) => {
      request.resume();
      if (request.url === "/settle") response.setHeader("EXTENSION-RESPONSES", REJECTED);
      const settled = { success: true, transaction: `0x${"12".repeat(32)}`, network: "eip155:84532" };
      response.end(JSON.stringify({ isValid: true, payer: accounts.payer.address, ...settled }));
    },
  }),
);
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: facilitator.url } }));

describe("EXTENSION-RESPONSES of the facilitator", () => {
  it("Is passed on with the settlement, and not kept for resends", async () => {
    const { headers } = await gateway.sign();
    const bought = await gateway.post(headers);
    expect([bought.status, bought.headers.get("extension-responses")]).toEqual([202, REJECTED]);
    const again = await gateway.post(headers);
    expect([again.status, again.body.call_id]).toEqual([202, bought.body.call_id]);
    expect(again.headers.has("extension-responses")).toBe(false);
  });

  it("Is read without trust", () => {
    expect(readExtensionResponses(REJECTED)?.rejected).toEqual([
      { extension: "bazaar", reason: "no schema" },
    ]);
    const fine = base64Json({ bazaar: { status: "success" }, other: { status: "processing", more: 1 } });
    expect(readExtensionResponses(fine)).toEqual({ header: fine, rejected: [] });
    const long = base64Json({ bazaar: { status: "rejected", rejectedReason: "x".repeat(2_000) } });
    expect(readExtensionResponses(long)?.rejected[0]?.reason.length).toBe(200);
    for (const header of [
      undefined,
      "",
      "not base64 or JSON",
      base64Json([]),
      base64Json({ bazaar: "rejected" }),
      base64Json({ bazaar: { status: "rejected", padding: "x".repeat(5_000) } }),
      `${REJECTED}\r\nset-cookie: a=b`,
      `${REJECTED}, ${REJECTED}`,
    ]) {
      expect([header, readExtensionResponses(header)]).toEqual([header, undefined]);
    }
  });

  it("Is logged once for each job, extension and reason", () => {
    const { logger, lines } = startLog();
    const rejections = new ExtensionRejections(logger);
    const responses = readExtensionResponses(REJECTED);
    if (responses === undefined) throw new Error("expected a readable header");
    rejections.log(JOB, responses);
    rejections.log(JOB, responses);
    rejections.log({ ...JOB, jobIndex: 5 }, responses);
    expect(lines).toMatchObject([
      { level: 40, job: "1/0", extension: "bazaar", reason: "no schema" },
      { level: 40, job: "1/5" },
    ]);
  });
});
