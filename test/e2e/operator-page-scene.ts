import type { JobHandler } from "../helpers/runner.ts";
import { type PaidGateway, startPaidGateway } from "./paid-gateway.ts";
import { type PaidParts, startPaidParts } from "./paid-parts.ts";

/** Operator's token. */
export const OPERATOR_TOKEN = "correct-horse-battery-staple";

/** A whole jobgate with money to earn, that the operator looks at. */
export interface OperatorScene {
  readonly parts: PaidParts;
  readonly gateway: PaidGateway;
  /** Sends a webhook. @returns its call id */
  sendWebhook(body: string): Promise<number>;
  /** Pays for a job. @returns its call id */
  pay(body: string): Promise<number>;
  /** Pays for a job, and keeps each request to settle its payment from the facilitator: the payment stays undecided. */
  payIntoTheDark(body: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts everything. The operator's token is asked for; a runner that fails a JobCall once has failed it for good. */
export async function startOperatorScene(options: {
  readonly handle: JobHandler;
  /** Changes the configuration. */
  readonly edit?: (config: string) => string;
}): Promise<OperatorScene> {
  const { handle, edit = (config) => config } = options;
  const parts = await startPaidParts();
  const gateway = await startPaidGateway({
    asProcess: true,
    parts,
    setUp: "rpc_url",
    handle,
    edit: (config) =>
      edit(
        `${config
          .replace("[operator]\n", `[operator]\ntoken = "${OPERATOR_TOKEN}"\nshow_bodies = true\n`)
          .replace("[runner]\n", "[runner]\nmax_attempts = 1\n")}
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hooks/alerts"
name = "Alerts"
job_id = 30
order_by = "header:X-Customer"
`,
      ),
  });

  async function callIdOf(answer: Promise<{ readonly call_id?: number }>): Promise<number> {
    const answered = await answer;
    if (answered.call_id === undefined) throw new Error(`no call: ${JSON.stringify(answered)}`);
    return answered.call_id;
  }
  return {
    parts,
    gateway,
    sendWebhook: (body) =>
      callIdOf(
        fetch(`${gateway.jobgate.webhooksUrl}/hooks/alerts`, { method: "POST", body }).then(
          async (response) => (await response.json()) as { call_id?: number },
        ),
      ),
    pay: async (body) => callIdOf(gateway.send(await gateway.sign({ body }), { body })),
    async payIntoTheDark(body) {
      const payment = await gateway.sign({ body });
      const { nonce } = payment.signed.authorization;
      gateway.facilitatorProxy.add({
        path: "/settle",
        when: (request) => request.body.includes(nonce),
        fault: { kind: "cut" },
      });
      const { status } = await gateway.send(payment, { body });
      if (status !== 503) throw new Error(`decided: ${status}`);
    },
    async stop() {
      await gateway.stop();
      await parts.stop();
    },
  };
}
