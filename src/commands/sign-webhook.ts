import { readFile } from "node:fs/promises";
import { type Command, Option } from "commander";
import type { WebhookEndpoint } from "../config/config.ts";
import { fileErrorText } from "../config/config-files.ts";
import { CannotSign, SigningKeyMissing } from "../webhooks/auth/auth-scheme.ts";
import { signWebhook, webhookPath } from "../webhooks/auth/schemes.ts";
import { configOption } from "./options.ts";
import { readConfig } from "./read-config.ts";
import { Refusal } from "./refusal.ts";

interface SignWebhookOptions {
  readonly config: string;
  readonly endpoint: string;
  readonly body: string;
  readonly deliveryId?: string;
  /** `env:NAME`; checked in the action, because commander quotes what it refuses. */
  readonly key?: string;
}

export function addSignWebhookCommand(program: Command): void {
  program
    .command("sign-webhook")
    .description(
      "Print the headers that a sender must send with a body to a webhook endpoint, or the path with its token.",
    )
    .addOption(configOption())
    .addOption(
      new Option("--endpoint <path>", "path of the endpoint").env("JOBGATE_ENDPOINT").makeOptionMandatory(),
    )
    .addOption(
      new Option("--body <file>", "file that holds the body").env("JOBGATE_BODY").makeOptionMandatory(),
    )
    .addOption(
      new Option("--delivery-id <id>", "the delivery's id, where the sender gives one (default: random)").env(
        "JOBGATE_DELIVERY_ID",
      ),
    )
    .addOption(
      new Option(
        "--key <env:NAME>",
        "environment variable that holds the sender's private key (whsk_…), for an endpoint that has the public one",
      ).env("JOBGATE_KEY"),
    )
    .addHelpText(
      "after",
      `
Example:
  $ jobgate sign-webhook --endpoint /hooks/alerts --body alert.json |
      curl --header @- --data-binary @alert.json http://127.0.0.1:9090/hooks/alerts`,
    )
    .action(async (options: SignWebhookOptions) => {
      const { config } = await readConfig(options);
      const endpoint = config.webhooks?.endpoints.find(({ path }) => path === options.endpoint);
      if (endpoint === undefined) {
        const known = config.webhooks?.endpoints.map(({ path }) => path).join(", ");
        throw new Refusal([
          `${options.config} has no endpoint ${options.endpoint}; expected one of ${known || "none"}`,
        ]);
      }
      const body = await readFile(options.body).catch((error: unknown) => {
        throw new Refusal([`${options.body} cannot be read: ${fileErrorText(error)}`]);
      });
      const headers = Object.entries(headersFor(endpoint, body, options));
      if (endpoint.auth.mode === "url-token") {
        console.error(`${endpoint.path} asks for no header: its secret is part of the path`);
        console.log(webhookPath(endpoint));
      } else if (headers.length === 0) {
        console.error(`${endpoint.path} asks for no header: its auth is "none"`);
      }
      for (const [name, value] of headers) console.log(`${name}: ${value}`);
    });
}

function headersFor(
  endpoint: WebhookEndpoint,
  body: Uint8Array,
  { deliveryId, key }: SignWebhookOptions,
): Record<string, string> {
  try {
    return signWebhook(endpoint, body, {
      ...(deliveryId === undefined ? {} : { deliveryId }),
      ...(key === undefined ? {} : { signingKey: readSigningKey(key) }),
    });
  } catch (error) {
    if (!(error instanceof CannotSign)) throw error;
    const hint = error instanceof SigningKeyMissing ? " (--key env:NAME)" : "";
    throw new Refusal([`${endpoint.path}: ${error.message}${hint}`]);
  }
}

function readSigningKey(key: string): string {
  const name = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(key)?.[1];
  // Not quoted: it may be the key itself.
  if (name === undefined)
    throw new Refusal(["--key does not name an environment variable; expected env:NAME"]);
  const value = process.env[name];
  if (value === undefined || value === "") throw new Refusal([`environment variable ${name} is not set`]);
  return value;
}
