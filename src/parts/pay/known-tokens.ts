import { isSameToken, isTestNetwork, networkName, TOKEN_PRESETS } from "../../config/token-presets.ts";
import { parseAnyNetwork } from "../../config/value-types.ts";
import { amountText } from "../../core/amounts.ts";
import type { PayingPart } from "../../part.ts";

interface Token {
  readonly network: string;
  readonly asset: string;
}

/** The networks and tokens that jobgate knows: names, decimals, and whether they are for tests. */
export class KnownTokens {
  readonly #kinds: readonly PayingPart["networks"][];
  readonly #presets: readonly PayingPart["presets"][number][];

  /** @param parts networks that are not EVM chains */
  constructor(parts: readonly PayingPart[] = []) {
    this.#kinds = parts.map(({ networks }) => networks);
    this.#presets = [...TOKEN_PRESETS, ...parts.flatMap(({ presets }) => presets)];
  }

  /** Returns a network as CAIP-2. Version 1 has names for networks, and so has `--network`. */
  parseNetwork(text: string): string | undefined {
    return parseAnyNetwork(text, this.#kinds);
  }

  /** Returns the network of an offer as CAIP-2, if jobgate knows it. */
  networkOf({ network }: Pick<Token, "network">): string {
    return this.parseNetwork(network) ?? network;
  }

  nameOf(token: Pick<Token, "network">): string {
    return networkName(this.networkOf(token), this.#kinds);
  }

  /** Reports whether tokens of the network are worth nothing. */
  isForTests(token: Pick<Token, "network">): boolean {
    return isTestNetwork(this.networkOf(token), this.#kinds);
  }

  decimalsOf(token: Token): number | undefined {
    return this.#presetOf(token)?.decimals;
  }

  /** Text of an amount in base units: with decimals if jobgate knows the token. */
  text({ amount, symbol, ...token }: Token & { readonly amount: string; readonly symbol?: string }): string {
    const preset = this.#presetOf(token);
    return amountText(amount, preset?.symbol ?? symbol ?? token.asset, preset?.decimals);
  }

  #presetOf(token: Token): PayingPart["presets"][number] | undefined {
    const network = this.networkOf(token);
    return this.#presets.find((preset) => isSameToken(preset, { network, asset: token.asset }));
  }
}
