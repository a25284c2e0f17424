import { readFile } from "node:fs/promises";
import type { x402Client } from "@x402/core/client";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { privateKeyToAccount } from "viem/accounts";
import { Refusal, readKey } from "../../commands/input.ts";
import { fileErrorText } from "../../config/named-files.ts";
import { parseNetwork } from "../../config/value-types.ts";
import { type PrivateKey, parsePrivateKey } from "../../core/private-keys.ts";
import type { PayingPart } from "../../part.ts";
import { PayerChannels } from "./channel.ts";
import type { KnownTokens } from "./known-tokens.ts";
import type { Offer } from "./offers.ts";

export const KEY_VARIABLE = "JOBGATE_PAYER_KEY";
const EVM_KEY = "32 bytes in hex";

/** The account that pays, by a key of one kind of network. */
export interface PayingAccount {
  readonly address: string;
  /** Reports whether it is an account of an offer's network. */
  isOn(network: string): boolean;
  /** Lets a client pay offers from the account. */
  addTo(client: x402Client, offers: readonly Offer[]): void;
  /** Set for an account that pays from its channels. */
  readonly channels?: PayerChannels;
}

interface AccountOptions {
  /** Default: {@link KEY_VARIABLE}. */
  readonly file: string | undefined;
  readonly parts: readonly PayingPart[];
  readonly tokens: KnownTokens;
  readonly rpcUrl: string | undefined;
  /** Amount of --deposit, to pay from a channel. */
  readonly deposit: string | undefined;
  /** Runs before a deposit is signed, with its amount for people. */
  onDeposit(amount: string): void;
}

/**
 * Reads the key of the account that pays.
 * @throws Refusal for a text that is not a key, of which the message quotes nothing
 */
export async function readAccount(options: AccountOptions): Promise<PayingAccount> {
  const { file, parts } = options;
  const where = file ?? `environment variable ${KEY_VARIABLE}`;
  const text = (file === undefined ? readKey(KEY_VARIABLE) : await readKeyFile(file)).trim();
  const evmKey = parsePrivateKey(`0x${text.replace(/^0x/, "")}`);
  if (evmKey !== undefined) return evmAccount(evmKey, options);
  for (const part of parts) {
    try {
      const payer = part.payer.read(text);
      if (payer !== undefined) return partAccount(part, payer, options);
    } catch (error) {
      throw new Refusal([`${where} ${(error as Error).message}`]);
    }
  }
  throw new Refusal([`${where} does not hold a private key; expected ${keysOf(parts)}`]);
}

/** Describes the keys of accounts, to complete "expected …". */
function keysOf(parts: readonly PayingPart[]): string {
  return [EVM_KEY, ...parts.map(({ payer }) => payer.key)].join(", or ");
}

function evmAccount(key: PrivateKey, { deposit, rpcUrl, tokens, onDeposit }: AccountOptions): PayingAccount {
  const signer = privateKeyToAccount(key);
  const own = { address: signer.address, isOn: (network: string) => parseNetwork(network) !== undefined };
  if (deposit === undefined)
    return {
      ...own,
      addTo: (client) =>
        void registerExactEvmScheme(client, { signer }).register("eip155:*", new UptoEvmScheme(signer)),
    };
  const channels = new PayerChannels({ signer, deposit, rpcUrl, tokens, onDeposit });
  return { ...own, channels, addTo: (client) => void client.register("eip155:*", channels.scheme) };
}

function partAccount(
  { networks }: PayingPart,
  payer: NonNullable<ReturnType<PayingPart["payer"]["read"]>>,
  { tokens, rpcUrl }: AccountOptions,
): PayingAccount {
  const scheme: Parameters<x402Client["register"]>[1] = {
    scheme: "exact",
    async createPaymentPayload(x402Version, offer) {
      const payload = await payer.pay(offer, { decimals: tokens.decimalsOf(offer), rpcUrl });
      return { x402Version, payload };
    },
  };
  return {
    address: payer.address,
    isOn: (network) => networks.has(network),
    addTo(client, offers) {
      for (const { network } of offers) if (networks.has(network)) client.register(network, scheme);
    },
  };
}

async function readKeyFile(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new Refusal([
      `${file} cannot be read: ${fileErrorText(error)}; expected a file with a private key`,
    ]);
  }
}
