import { decodePaymentRequiredHeader } from "@x402/core/http";
import { type CompleteSIWxInfo, createSIWxPayload, encodeSIWxHeader } from "@x402/extensions/sign-in-with-x";
import type { TestAccount } from "./accounts.ts";

/** Signs the challenge of a 402 as the official client does. @param network default: the first of the 402 @returns the value of `SIGN-IN-WITH-X` */
export async function signChallenge(
  account: TestAccount,
  asked: Response,
  network?: string,
): Promise<string> {
  const required = decodePaymentRequiredHeader(asked.headers.get("payment-required") ?? "");
  const { "sign-in-with-x": extension } = required.extensions ?? {};
  const { info, supportedChains } = extension as {
    readonly info: Omit<CompleteSIWxInfo, "chainId" | "type">;
    readonly supportedChains: readonly [{ readonly chainId: string; readonly type: "eip191" }];
  };
  const chain = network === undefined ? supportedChains[0] : { ...supportedChains[0], chainId: network };
  return encodeSIWxHeader(await createSIWxPayload({ ...info, ...chain }, account, info.uri));
}
