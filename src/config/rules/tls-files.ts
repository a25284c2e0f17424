import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { Checked } from "../check-shape.ts";
import { fileErrorText } from "../config-files.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";

/** That the PEM files of the runner's listener can be read and fit each other. */
export async function checkTlsFiles(file: Checked<CheckedFile>, mistakes: MistakeList): Promise<void> {
  const tls = file.runner?.tls;
  if (tls === undefined) return;
  const read = async (key: "cert" | "key" | "client_ca"): Promise<Buffer | undefined> => {
    const path = tls[key];
    if (path === undefined) return undefined;
    try {
      return await readFile(path);
    } catch (error) {
      const reason = fileErrorText(error);
      mistakes.report(["runner", "tls", key], `cannot be read: ${reason}; expected the path of a PEM file`);
      return undefined;
    }
  };
  const [cert, key, clientCa] = await Promise.all([read("cert"), read("key"), read("client_ca")]);
  if (cert !== undefined && key !== undefined && !isUsable({ cert, key })) {
    mistakes.report(
      ["runner", "tls"],
      "cert and key do not work together; expected a PEM certificate and its private key",
    );
  }
  if (clientCa !== undefined && !isUsable({ ca: clientCa })) {
    mistakes.report(["runner", "tls", "client_ca"], "holds no certificate; expected a PEM file");
  }
}

function isUsable(context: { cert: Buffer; key: Buffer } | { ca: Buffer }): boolean {
  // OpenSSL takes a CA file without any certificate in it for an empty list.
  if ("ca" in context && !context.ca.includes("-----BEGIN CERTIFICATE-----")) return false;
  try {
    createSecureContext(context);
    return true;
  } catch {
    return false;
  }
}
