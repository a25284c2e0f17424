import { type BindAddress, isLoopbackHost, isSameAddress } from "../../core/network-address.ts";
import type { MistakeList } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";

/** Checks which listeners can share an address, and which need a token. */
export function checkListeners(
  { runner, operator, x402, webhooks, listeners: ofParts }: ConfigTables,
  mistakes: MistakeList,
): void {
  // HTTP/1.1 listeners can share a socket, unless a listener accepts any path. gRPC needs HTTP/2 from the first byte.
  const listeners = [
    ["runner", runner?.bindAddress, "grpc"],
    ["operator", operator?.bindAddress, "http"],
    ["x402", x402?.bindAddress, "http"],
    ["webhooks", webhooks?.bindAddress, "http"],
    ...ofParts.map(({ table, bindAddress }) => [table, bindAddress, "of a part"] as const),
  ] as const;
  for (const [i, [table, address, protocol]] of listeners.entries()) {
    for (const [other, otherAddress, otherProtocol] of listeners.slice(0, i)) {
      if (address === undefined || otherAddress === undefined) continue;
      const isShareable = protocol === "http" && otherProtocol === "http" && address.kind === "tcp";
      if (isShareable || !isSameAddress(address, otherAddress)) continue;
      mistakes
        .at(...table.split("."), "bind_address")
        .report(`is that of ${other} too, and the two cannot share a socket; expected an address of its own`);
    }
  }
  if (runner?.tls?.clientCa === undefined && needsToken(runner)) {
    mistakes
      .at("runner", "token")
      .reportMissing(
        "is missing; expected a token, or runner.tls.client_ca, since other machines can reach runner.bind_address",
      );
  }
  if (needsToken(operator)) {
    mistakes
      .at("operator", "token")
      .reportMissing("is missing; expected a token, since other machines can reach operator.bind_address");
  }
}

function needsToken(
  listener: { readonly bindAddress?: BindAddress | undefined; readonly token?: unknown } | undefined,
): boolean {
  const address = listener?.bindAddress;
  return address?.kind === "tcp" && !isLoopbackHost(address.host) && listener?.token === undefined;
}
