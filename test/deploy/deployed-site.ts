import { createHmac, randomBytes } from "node:crypto";
import { expect } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";

/** Variables that the files in deploy/ name. */
export const SECRETS = {
  OPERATOR_TOKEN: randomBytes(16).toString("hex"),
  ALERTS_SECRET: randomBytes(16).toString("hex"),
  PAY_TO: accounts.payTo.address,
} as const;

/** Number of the state in which a JobCall has ended well. */
const DONE = "CALL_STATE_DONE";

/** A jobgate that was deployed as deploy/ shows, on a host with the ports of the files there. */
export class DeployedSite {
  readonly #host: string;

  constructor(host: string) {
    this.#host = host;
  }

  /** Returns the status of a probe; 0 without an answer. */
  probe(path: "/healthz" | "/readyz"): Promise<number> {
    return fetch(`http://${this.#host}:8405${path}`).then(
      ({ status }) => status,
      () => 0,
    );
  }

  /** Sends a signed webhook, and returns the ID of the JobCall that jobgate made of it. */
  async sendAlert(body: string): Promise<number> {
    const signature = `sha256=${createHmac("sha256", SECRETS.ALERTS_SECRET).update(body).digest("hex")}`;
    const response = await fetch(`http://${this.#host}:9090/hooks/alerts`, {
      ...{ method: "POST", body },
      headers: { "x-signature-256": signature, "x-hub-signature-256": signature },
    });
    expect(response.status).toBe(202);
    return ((await response.json()) as { call_id: number }).call_id;
  }

  /** Waits until a JobCall is done, and returns the number of its deliveries. */
  async done(callId: number): Promise<number> {
    await expect.poll(async () => (await this.call(callId)).state).toBe(DONE);
    return (await this.call(callId)).attempts;
  }

  /** Looks up a JobCall by the API of the operator. */
  async call(callId: number): Promise<{ state: string; attempts: number }> {
    const response = await fetch(`http://${this.#host}:8405/jobgate.v1.OperatorService/GetCall`, {
      method: "POST",
      body: JSON.stringify({ callId }),
      headers: { "content-type": "application/json", authorization: `Bearer ${SECRETS.OPERATOR_TOKEN}` },
    });
    return ((await response.json()) as { call: { state: string; attempts: number } }).call;
  }

  /** Buys a job with the official client, and waits for its result. */
  async buy(body: string): Promise<string> {
    const pay = payingFetch({ account: accounts.payer, network: "eip155:84532" });
    const answer = await pay(`http://${this.#host}:8402/x402/jobs/1/0`, { method: "POST", body });
    expect(answer.status).toBe(202);
    const { call_id: callId, access_token: token } = (await answer.json()) as Record<string, string>;
    await this.done(Number(callId));
    const result = await fetch(`http://${this.#host}:8402/x402/calls/${callId}/result`, {
      headers: { authorization: `Bearer ${token}` },
    });
    return result.text();
  }
}
