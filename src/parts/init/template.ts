import {
  LISTENERS,
  type Money,
  type NewApi,
  type NewConfig,
  type NewJob,
  type NewRoute,
  type NewWebhook,
} from "./new-config.ts";
import { tomlKey, tomlString, tomlValue } from "./toml-text.ts";

/** Renders a configuration file. */
export function configText(config: NewConfig): string {
  const { money, job, api, webhook, storeUrl = "sqlite:jobgate.db", listeners = LISTENERS } = config;
  const runner =
    job === undefined && api !== undefined
      ? `bind_address = "127.0.0.1:0"                # any free port: the jobs of an API need no runner`
      : `bind_address = "127.0.0.1:8403"             # your runner connects here; other machines need a token and TLS`;
  return `\
# Configuration of jobgate. Check it with: jobgate check
# Any value may be "env:NAME" (a variable) or "file:PATH" (the contents of a file), so that secrets stay out of this file.
service_id = 1

[store]
url = ${tomlString(storeUrl).padEnd(37)} # created at the first start

[runner]
${runner}

[operator]
bind_address = ${tomlString(listeners.operator).padEnd(28)} # the operator page, metrics and the operator's commands
# token = "env:OPERATOR_TOKEN"              # required on any other address
${money === undefined ? "" : sale(money, config)}${job === undefined ? "" : paidJob(job)}${api === undefined ? "" : soldApi(api)}${webhook === undefined ? "" : webhookEndpoint(webhook)}`;
}

function sale(money: Money, { listeners = LISTENERS }: NewConfig): string {
  const { x402, publicUrl } = listeners;
  const address =
    publicUrl === undefined
      ? `# public_url = "https://jobs.example.com"   # what buyers are told, when a proxy is in front`
      : `public_url = ${tomlString(publicUrl)}\ntrusted_proxies = ["127.0.0.1"]             # limits then count buyers, not the proxy`;
  const rpc =
    money.rpcUrl === undefined
      ? `# rpc_url = "env:RPC_URL"                   # jobgate then sees on the chain that it was paid`
      : `rpc_url = ${tomlString(money.rpcUrl)}`;
  return `
[x402]                                      # jobs that are paid for
bind_address = ${tomlString(x402)}
${address}
facilitator_url = ${tomlString(money.facilitatorUrl)}

[[x402.accepted_tokens]]
token = ${tomlString(money.symbol)}
network = ${tomlString(money.network)}
pay_to = ${tomlString(money.payTo)}
${rpc}
`;
}

function paidJob({ name, description, price }: NewJob): string {
  return `
[[jobs]]
job_index = 0
name = ${tomlString(name)}
description = ${tomlString(description)}
mode = "public_paid"                        # anyone may buy it
price = ${tomlString(price)}
`;
}

function soldApi({ name, url, headers, routes }: NewApi): string {
  const set = Object.keys(headers).length === 0 ? "" : `headers = ${tomlValue(headers)}\n`;
  return `
[[apis]]
name = ${tomlString(name)}
url = ${tomlString(url)}
${set}${routes.map((route) => soldRoute(name, route)).join("")}`;
}

/** Folder of the schemas and examples of bodies, beside the configuration file. */
const FOLDER = "schemas";

function soldRoute(api: string, { route, price, details }: NewRoute): string {
  const { query } = details;
  const keys = {
    route,
    api,
    name: details.name,
    title: details.title,
    description: details.description,
    tags: details.tags,
    mode: "public_paid",
    price,
    idempotent: details.isIdempotent,
    forward_headers: details.forwardHeaders,
    output: details.outputType && { content_type: details.outputType },
  };
  const files = inputFiles(details);
  const input = details.input && {
    content_type: details.input.contentType,
    schema: files.schema?.path,
    example: files.example?.path,
  };
  const fields = query && {
    ...query.properties,
    required: query.required.length === 0 ? undefined : query.required,
  };
  return `
[[jobs]]
${lines(keys)}${input === undefined ? "" : `[jobs.input]\n${lines(input)}`}${fields === undefined ? "" : `[jobs.input.query]\n${lines(fields)}`}`;
}

function lines(keys: Readonly<Record<string, unknown>>): string {
  const there = Object.entries(keys).filter(([, value]) => value !== undefined);
  return there.map(([key, value]) => `${tomlKey(key)} = ${tomlValue(value)}\n`).join("");
}

/** Returns the files that the configuration of a route names; paths are relative to the configuration file. */
export function inputFiles({ name, input }: NewRoute["details"]) {
  const file = (end: string, text: string | undefined) =>
    text === undefined ? undefined : { path: `${FOLDER}/${name}${end}`, text };
  return { schema: file(".json", input?.schema), example: file(".example", input?.example) };
}

function webhookEndpoint({ path, auth, secretFile }: NewWebhook): string {
  return `
[webhooks]                                  # jobs that authenticated requests start
bind_address = "127.0.0.1:9090"

[[webhooks.endpoints]]
path = ${tomlString(path)}
job_id = 30
auth = ${tomlString(auth)}
secret = ${tomlString(`file:${secretFile}`)}
`;
}
