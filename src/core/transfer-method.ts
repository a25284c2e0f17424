/** Facts about a transfer method: how a payment moves its token. */
export interface TransferMethod {
  /** Name in configurations, offers and stored payments. */
  readonly name: string;
  /** Name for people. */
  readonly title: string;
  /** An authorization can be charged less than the signed value. */
  readonly chargesPart?: true | undefined;
  /** A signed payment expires too soon for a charge that comes after the job. */
  readonly endsSoon?: true | undefined;
  /** The token itself checks what payers sign, under its EIP-712 domain, which the configuration has to say. */
  readonly isOfToken?: true;
}

/** The transfer method of the core. Offers of x402 do not name it. */
export const EIP3009: TransferMethod = {
  name: "eip3009",
  title: "EIP-3009",
  isOfToken: true,
};
