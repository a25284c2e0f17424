import type { LocalAccount } from "viem";
import { jsonResponse } from "../../http/response.ts";
import type { MethodHandlers } from "../../http/routes.ts";

/** Returns the DID document (did:web) of the public URL's host, which names the key that signs offers and receipts. */
function didDocument(publicUrl: string, { address, publicKey }: LocalAccount): object {
  const { host, pathname } = new URL(publicUrl);
  const parts = [host, ...pathname.split("/").filter((part) => part !== "")];
  const id = `did:web:${parts.map(encodeURIComponent).join(":")}`;
  // 0x04, then two coordinates of 32 bytes.
  const [x, y] = [4, 68].map((start) =>
    Buffer.from(publicKey.slice(start, start + 64), "hex").toString("base64url"),
  );
  const key = { id: `${id}#key`, controller: id };
  const account = { id: `${id}#account`, controller: id };
  return {
    "@context": [
      "https://www.w3.org/ns/did/v1",
      "https://w3id.org/security/suites/jws-2020/v1",
      "https://w3id.org/security/suites/secp256k1recovery-2020/v2",
    ],
    id,
    verificationMethod: [
      { ...key, type: "JsonWebKey2020", publicKeyJwk: { kty: "EC", crv: "secp256k1", x, y } },
      {
        ...account,
        type: "EcdsaSecp256k1RecoveryMethod2020",
        blockchainAccountId: `eip155:1:${address}`,
      },
    ],
    assertionMethod: [key.id, account.id],
  };
}

/** Route of the document. A proxy may serve jobgate below a path, where did:web looks for no `.well-known`. */
export function didRoute(publicUrl: string, account: LocalAccount): readonly [string, MethodHandlers] {
  const path = new URL(publicUrl).pathname === "/" ? "/.well-known/did.json" : "/did.json";
  const document = jsonResponse(200, didDocument(publicUrl, account), {
    "content-type": "application/did+json",
    "cache-control": "public, max-age=300",
  });
  const answer = () => document;
  return [path, { GET: answer, HEAD: answer }];
}
