import { isSameAddress } from "../bind-address.ts";
import type { Checked } from "../check-shape.ts";
import { type KeyPath, keyPathText } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";

type WebhooksTable = NonNullable<Checked<CheckedFile>["webhooks"]>;
type EndpointTable = NonNullable<NonNullable<WebhooksTable["endpoints"]>[number]>;

/** What holds between the keys of `[webhooks]` and its endpoints. */
export function checkWebhooks(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const { webhooks } = file;
  if (webhooks === undefined) return;
  const isBuiltIn = builtInPaths(file, webhooks);
  const seen = new Map<string, KeyPath>();
  for (const [i, endpoint] of (webhooks.endpoints ?? []).entries()) {
    if (endpoint === undefined) continue;
    const path = ["webhooks", "endpoints", i];
    checkSecret(endpoint, path, mistakes);
    if (endpoint.path === undefined) continue;
    if (isBuiltIn(endpoint.path)) {
      mistakes.report(
        [...path, "path"],
        "shadows a path of jobgate itself; expected another, such as one under /hooks",
      );
    }
    const first = seen.get(endpoint.path);
    if (first === undefined) seen.set(endpoint.path, [...path, "path"]);
    else mistakes.report([...path, "path"], `is the same as ${keyPathText(first)}; expected each path once`);
  }
}

function checkSecret(endpoint: EndpointTable, path: KeyPath, mistakes: MistakeList): void {
  const { auth, secret } = endpoint;
  if (auth === undefined) return;
  const secretPath = [...path, "secret"];
  if (auth === "none") {
    if (secret !== undefined) {
      mistakes.report(
        secretPath,
        'is never asked for, since auth is "none"; expected another auth, or no secret',
      );
    }
    return;
  }
  if (secret === undefined) {
    mistakes.reportMissing(secretPath, `is missing; expected it, since auth is "${auth}"`);
  } else if (auth !== "hmac-sha256" && !/^[\x21-\x7e]+$/.test(secret)) {
    mistakes.report(
      secretPath,
      `cannot be sent in a header, as auth "${auth}" does; expected visible ASCII characters, without blanks and line ends`,
    );
  }
}

/** Paths that another listener answers on the same socket, or may come to when addresses are changed. */
function builtInPaths(file: Checked<CheckedFile>, webhooks: WebhooksTable): (path: string) => boolean {
  const shared =
    webhooks.bind_address !== undefined &&
    file.operator?.bind_address !== undefined &&
    isSameAddress(webhooks.bind_address, file.operator.bind_address);
  return (path) =>
    path === "/webhooks/health" ||
    path === "/x402" ||
    path.startsWith("/x402/") ||
    (shared && (["/healthz", "/readyz", "/metrics"].includes(path) || path.startsWith("/jobgate.")));
}
