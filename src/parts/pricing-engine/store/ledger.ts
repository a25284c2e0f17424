/** Signed quotes of the pricing engine. Each can be paid once, until it expires. */
export interface QuoteLedger {
  /** Saves a quote. If the digest exists already, the first quote stays and is returned. */
  saveQuote(quote: SavedQuote): Promise<SavedQuote>;
  /** `isPaid`: a payment that redeems this quote was or may have been made. Expired quotes are not found. */
  findQuote(digest: string): Promise<(SavedQuote & { readonly isPaid: boolean }) | undefined>;
}

export interface SavedQuote {
  /** EIP-712 digest, 64 lower-case hex digits. */
  readonly digest: string;
  /** JSON */
  readonly quote: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}
