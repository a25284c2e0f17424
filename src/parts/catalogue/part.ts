import type { Part } from "../../part.ts";

/** Documents that tell people, crawlers and agents which jobs are for sale, and x402's extension `bazaar`. */
export const part: Part = {
  paths: { x402: ["/openapi.json", "/llms.txt", "/.well-known/x402"] },
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
