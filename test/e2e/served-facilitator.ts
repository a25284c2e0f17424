import { localSettler } from "./local-facilitator.ts";
import { type PaidGateway, type PaidGatewayOptions, startPaidGateway } from "./paid-gateway.ts";
import type { PaidParts } from "./paid-parts.ts";

/** The token of the seller that a test sells as. */
export const SHOP_TOKEN = "token-of-the-shop";

/** A jobgate that settles itself and serves that to others. */
export interface ServingGateway extends PaidGateway {
  /** Account that sends the settlements. */
  readonly settler: `0x${string}`;
  readonly serviceUrl: string;
}

export async function startServingGateway(
  options: Omit<PaidGatewayOptions, "setUp" | "edit"> & {
    readonly fundsWei?: bigint;
    /** Default: a free one, which changes at a restart. */
    readonly port?: number;
  },
): Promise<ServingGateway> {
  const { parts, fundsWei, port = 0 } = options;
  const { addresses, edit } = await localSettler({ anvil: parts.anvil, ...(fundsWei && { fundsWei }) });
  const service = `
[x402.facilitator_service]
bind_address = "127.0.0.1:${port}"
tokens = [{ name = "shop", token = "${SHOP_TOKEN}" }]
`;
  const gateway = await startPaidGateway({
    ...options,
    setUp: "rpc_url",
    edit: (config) => `${edit(config)}${service}`,
  });
  const [settler] = addresses as [`0x${string}`];
  return Object.assign(gateway, {
    settler,
    serviceUrl: `http://${gateway.jobgate.listeners.get("facilitator")}`,
  });
}

/** A jobgate that sells jobs through the facilitator of another one. */
export function startSellingGateway(options: {
  readonly parts: PaidParts;
  readonly serviceUrl: string;
  readonly token?: string;
  /** Facilitator to ask after that one. */
  readonly nextUrl?: string;
  readonly setUp?: PaidGatewayOptions["setUp"];
  readonly periods?: NonNullable<PaidGatewayOptions["periods"]>;
}): Promise<PaidGateway> {
  const { parts, serviceUrl, token = SHOP_TOKEN, nextUrl, setUp = "no rpc_url", periods = {} } = options;
  const facilitator = `
[[x402.facilitators]]
url = "${serviceUrl}"
auth.headers = { Authorization = "Bearer ${token}" }
${nextUrl === undefined ? "" : `[[x402.facilitators]]\nurl = "${nextUrl}"\n`}`;
  const edit = (config: string) => config.replace(/^facilitator_url = .*$/m, "") + facilitator;
  return startPaidGateway({ parts, setUp, periods, edit });
}
