import type { Command } from "commander";
import { keyVariable, Refusal, readBody, readConfig, readKey } from "../../commands/input.ts";
import { addCommand, bodyOption, configOption, option } from "../../commands/options.ts";
import type { WebhookEndpoint } from "../../config/config.ts";
import { defined } from "../../core/objects.ts";
import { CannotSign, SigningKeyMissing } from "../../webhooks/auth/auth-scheme.ts";
import { signWebhook, webhookPath } from "../../webhooks/auth/schemes.ts";

interface SignWebhookOptions {
  readonly config: string;
  readonly endpoint: string;
  readonly body: string;
  readonly deliveryId?: string;
  /** `env:NAME`. The action parses it, because commander quotes values that it refuses. */
  readonly key?: string;
}

export function addTo(program: Command): void {
  addCommand(program, {
    name: "sign-webhook",
    description:
      "Print the headers that a sender must send with a body to a webhook endpoint, or its path with the token.",
    example: `sign-webhook --endpoint /hooks/alerts --body alert.json |
      curl --header @- --data-binary @alert.json http://127.0.0.1:9090/hooks/alerts`,
    takes: [
      configOption(),
      option("--endpoint <path>", "path of the endpoint").makeOptionMandatory(),
      bodyOption(),
      option("--delivery-id <id>", "delivery ID, for an auth mode that has one (default: random)"),
      option(
        "--key <env:NAME>",
        "environment variable with the sender's private key (whsk_…), for an endpoint that holds the public key",
      ),
    ],
  }).action(sign);
}

async function sign(options: SignWebhookOptions): Promise<void> {
  const keyName = options.key === undefined ? undefined : keyVariable(options.key);
  const { config } = await readConfig(options);
  const endpoints = config.webhooks?.endpoints ?? [];
  const endpoint = endpoints.find(({ path }) => path === options.endpoint);
  if (endpoint === undefined) {
    const known = endpoints.map(({ path }) => path).join(", ");
    throw new Refusal([
      `${options.config} has no endpoint ${options.endpoint}; expected one of ${known || "none"}`,
    ]);
  }
  const body = await readBody(options.body);
  const headers = Object.entries(headersFor(endpoint, body, options.deliveryId, keyName));
  if (endpoint.auth.mode === "url-token") {
    console.error(`${endpoint.path} needs no header: its secret is part of the path`);
    console.log(webhookPath(endpoint));
  } else if (headers.length === 0) {
    console.error(`${endpoint.path} needs no header: its auth is "none"`);
  }
  for (const [name, value] of headers) console.log(`${name}: ${value}`);
}

function headersFor(
  endpoint: WebhookEndpoint,
  body: Uint8Array,
  deliveryId: string | undefined,
  keyName: string | undefined,
): Record<string, string> {
  try {
    return signWebhook(endpoint, body, defined({ deliveryId, signingKey: keyName && readKey(keyName) }));
  } catch (error) {
    if (!(error instanceof CannotSign)) throw error;
    const hint = error instanceof SigningKeyMissing ? " (--key env:NAME)" : "";
    throw new Refusal([`${endpoint.path}: ${error.message}${hint}`]);
  }
}
