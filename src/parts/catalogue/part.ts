import type { Part } from "../../part.ts";

const WELL_KNOWN = ["x402", "x402.json", "agent-registration.json"].map((name) => `/.well-known/${name}`);

/** Documents that tell people, crawlers and agents which jobs are for sale, and x402's extension `bazaar`. */
export const part: Part = {
  paths: { x402: ["/openapi.json", "/llms.txt", "/favicon.svg", ...WELL_KNOWN] },
  async checkListing({ x402 }) {
    if (x402 === undefined) return [];
    const { checkListing } = await import("./listing-check.ts");
    return checkListing(x402);
  },
  async x402() {
    const [{ bazaarExtension }, { CatalogueRoutes }] = await Promise.all([
      import("./bazaar.ts"),
      import("./catalogue-routes.ts"),
    ]);
    return {
      open: () => ({
        declares: bazaarExtension,
        routes: (shop) => new CatalogueRoutes(shop).all,
      }),
    };
  },
};
