/** Choices that a new configuration is made of. */
export interface NewConfig {
  readonly job?:
    | {
        readonly name: string;
        readonly description: string;
        readonly price: string;
        readonly payTo: string;
        /** Symbol of a token that jobgate knows on the network. */
        readonly symbol: string;
        readonly network: string;
        readonly facilitatorUrl: string;
      }
    | undefined;
  readonly webhook?:
    | {
        readonly path: string;
        readonly auth: string;
        /** Relative to the configuration file. */
        readonly secretFile: string;
      }
    | undefined;
}

/** Renders a configuration file. Every value is checked, and holds nothing that TOML would need escaped. */
export function configText({ job, webhook }: NewConfig): string {
  return `\
# Configuration of jobgate. Check it with: jobgate check
# Any value may be "env:NAME" (a variable) or "file:PATH" (the contents of a file), so that secrets stay out of this file.
service_id = 1

[store]
url = "sqlite:jobgate.db"                   # created at the first start

[runner]
bind_address = "127.0.0.1:8403"             # your runner connects here; other machines need a token and TLS

[operator]
bind_address = "127.0.0.1:8405"             # the operator page, metrics and the operator's commands
# token = "env:OPERATOR_TOKEN"              # required on any other address
${job === undefined ? "" : paidJob(job)}${webhook === undefined ? "" : webhookEndpoint(webhook)}`;
}

function paidJob(job: NonNullable<NewConfig["job"]>): string {
  return `
[x402]                                      # jobs that are paid for
bind_address = "127.0.0.1:8402"
# public_url = "https://jobs.example.com"   # what buyers are told, when a proxy is in front
facilitator_url = "${job.facilitatorUrl}"

[[x402.accepted_tokens]]
token = "${job.symbol}"
network = "${job.network}"
pay_to = "${job.payTo}"
# rpc_url = "env:RPC_URL"                   # jobgate then sees on the chain that it was paid

[[jobs]]
job_index = 0
name = "${job.name}"
description = ${JSON.stringify(job.description)}
mode = "public_paid"                        # anyone may buy it
price = "${job.price}"
`;
}

function webhookEndpoint({ path, auth, secretFile }: NonNullable<NewConfig["webhook"]>): string {
  return `
[webhooks]                                  # jobs that authenticated requests start
bind_address = "127.0.0.1:9090"

[[webhooks.endpoints]]
path = "${path}"
job_id = 30
auth = "${auth}"
secret = "file:${secretFile}"
`;
}
