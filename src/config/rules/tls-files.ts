import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { Checked } from "../check-shape.ts";
import { fileErrorText } from "../config-files.ts";
import type { KeyPath } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";

/** That the PEM files that are named can be read, and fit each other. */
export async function checkTlsFiles(file: Checked<CheckedFile>, mistakes: MistakeList): Promise<void> {
  await Promise.all([checkRunnerFiles(file, mistakes), checkStoreFile(file, mistakes)]);
}

async function checkRunnerFiles(file: Checked<CheckedFile>, mistakes: MistakeList): Promise<void> {
  const tls = file.runner?.tls;
  if (tls === undefined) return;
  const read = (key: "cert" | "key" | "client_ca") => readPem(["runner", "tls", key], tls[key], mistakes);
  const [cert, key, clientCa] = await Promise.all([read("cert"), read("key"), read("client_ca")]);
  if (cert !== undefined && key !== undefined && !isUsable({ cert, key })) {
    mistakes.report(
      ["runner", "tls"],
      "cert and key do not work together; expected a PEM certificate and its private key",
    );
  }
  checkAuthorities(["runner", "tls", "client_ca"], clientCa, mistakes);
}

async function checkStoreFile(file: Checked<CheckedFile>, mistakes: MistakeList): Promise<void> {
  const path: KeyPath = ["store", "ca"];
  checkAuthorities(path, await readPem(path, file.store?.ca, mistakes), mistakes);
}

async function readPem(
  key: KeyPath,
  path: string | undefined,
  mistakes: MistakeList,
): Promise<Buffer | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path);
  } catch (error) {
    mistakes.report(key, `cannot be read: ${fileErrorText(error)}; expected the path of a PEM file`);
    return undefined;
  }
}

function checkAuthorities(key: KeyPath, ca: Buffer | undefined, mistakes: MistakeList): void {
  if (ca !== undefined && !isUsable({ ca })) {
    mistakes.report(key, "holds no certificate; expected a PEM file");
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
