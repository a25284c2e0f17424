import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { ConfigTables } from "../config.ts";
import { fileErrorText } from "../config-files.ts";
import type { KeyPath } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";

/** Checks that the PEM files can be read and work together. */
export async function checkTlsFiles({ runner, store }: ConfigTables, mistakes: MistakeList): Promise<void> {
  const readPem = async (key: KeyPath, path: string | undefined): Promise<Buffer | undefined> => {
    if (path === undefined) return undefined;
    try {
      return await readFile(path);
    } catch (error) {
      mistakes.report(key, `cannot be read: ${fileErrorText(error)}; expected the path of a PEM file`);
      return undefined;
    }
  };
  const [cert, key, clientCa, storeCa] = await Promise.all([
    readPem(["runner", "tls", "cert"], runner?.tls?.cert),
    readPem(["runner", "tls", "key"], runner?.tls?.key),
    readPem(["runner", "tls", "client_ca"], runner?.tls?.clientCa),
    readPem(["store", "ca"], store?.ca),
  ]);
  if (cert !== undefined && key !== undefined && !isUsable({ cert, key })) {
    mistakes.report(
      ["runner", "tls"],
      "cert and key do not work together; expected a PEM certificate and its private key",
    );
  }
  checkAuthorities(["runner", "tls", "client_ca"], clientCa, mistakes);
  checkAuthorities(["store", "ca"], storeCa, mistakes);
}

function checkAuthorities(key: KeyPath, ca: Buffer | undefined, mistakes: MistakeList): void {
  // OpenSSL accepts a CA file without any certificate as an empty list.
  if (ca === undefined || (ca.includes("-----BEGIN CERTIFICATE-----") && isUsable({ ca }))) return;
  mistakes.report(key, "holds no certificate; expected a PEM file");
}

function isUsable(context: { cert: Buffer; key: Buffer } | { ca: Buffer }): boolean {
  try {
    createSecureContext(context);
    return true;
  } catch {
    return false;
  }
}
