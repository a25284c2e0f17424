import type { Part } from "../../part.ts";

/** Pages on which people see the jobs for sale and pay for jobs with a wallet. */
export const part: Part = {
  async x402() {
    const { shopFiles, ShopPages } = await import("./shop-pages.ts");
    return {
      open: () => ({ pages: (shop) => new ShopPages(shop), routes: ({ seller }) => shopFiles(seller) }),
    };
  },
};
