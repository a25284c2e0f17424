import { readFile } from "node:fs/promises";
import { type Command, Option } from "commander";
import { fileErrorText } from "../config/config-files.ts";
import { signWebhook } from "../webhooks/sign.ts";
import { configOption } from "./options.ts";
import { readConfig } from "./read-config.ts";
import { Refusal } from "./refusal.ts";

interface SignWebhookOptions {
  readonly config: string;
  readonly endpoint: string;
  readonly body: string;
}

export function addSignWebhookCommand(program: Command): void {
  program
    .command("sign-webhook")
    .description("Print the headers that a sender must send with a body to a webhook endpoint.")
    .addOption(configOption())
    .addOption(
      new Option("--endpoint <path>", "path of the endpoint").env("JOBGATE_ENDPOINT").makeOptionMandatory(),
    )
    .addOption(
      new Option("--body <file>", "file that holds the body").env("JOBGATE_BODY").makeOptionMandatory(),
    )
    .addHelpText("after", "\nExample:\n  $ jobgate sign-webhook --endpoint /hooks/alerts --body alert.json")
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
      const headers = Object.entries(signWebhook(endpoint, body));
      if (headers.length === 0) console.error(`${endpoint.path} asks for no header: its auth is "none"`);
      for (const [name, value] of headers) console.log(`${name}: ${value}`);
    });
}
