import type { BindAddress } from "../../core/network-address.ts";
import { isLoopbackHost, isSameAddress } from "../../core/network-address.ts";
import type { Checked } from "../check-shape.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";

interface Listener {
  readonly table: string;
  readonly address: BindAddress;
  /** Only listeners that speak HTTP/1.1 can share a socket; gRPC needs HTTP/2 from the first byte. */
  readonly protocol: "http" | "grpc";
}

/** Which listeners can stand side by side, and which of them must ask for a token. */
export function checkListeners(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const listeners = listenersOf(file);
  for (const [i, listener] of listeners.entries()) {
    for (const earlier of listeners.slice(0, i)) {
      const bothHttp = listener.protocol === "http" && earlier.protocol === "http";
      const shareable = bothHttp && listener.address.kind === "tcp";
      if (shareable || !isSameAddress(listener.address, earlier.address)) continue;
      mistakes.report(
        [listener.table, "bind_address"],
        `is that of ${earlier.table} too, and the two cannot share a socket; expected an address of its own`,
      );
    }
  }
  const { runner, operator } = file;
  if (runner?.tls?.client_ca === undefined && needsToken(runner)) {
    mistakes.reportMissing(
      ["runner", "token"],
      "is missing; expected a token, or runner.tls.client_ca, since others than this machine can reach runner.bind_address",
    );
  }
  if (needsToken(operator)) {
    mistakes.reportMissing(
      ["operator", "token"],
      "is missing; expected a token, since others than this machine can reach operator.bind_address",
    );
  }
}

function listenersOf(file: Checked<CheckedFile>): Listener[] {
  const tables = [
    ["runner", file.runner?.bind_address, "grpc"],
    ["operator", file.operator?.bind_address, "http"],
    ["x402", file.x402?.bind_address, "http"],
    ["webhooks", file.webhooks?.bind_address, "http"],
    ["pricing_engine", file.pricing_engine?.bind_address, "grpc"],
  ] as const;
  return tables.flatMap(([table, address, protocol]) =>
    address === undefined ? [] : [{ table, address, protocol }],
  );
}

function needsToken(
  listener: { bind_address?: BindAddress | undefined; token?: string | undefined } | undefined,
) {
  const address = listener?.bind_address;
  return address?.kind === "tcp" && !isLoopbackHost(address.host) && listener?.token === undefined;
}
