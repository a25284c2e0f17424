import type { Part } from "../../part.ts";

/** The operator's page in a browser. */
export const part: Part = {
  paths: { operator: ["/page/"] },
  async load() {
    const { pageRoutes } = await import("./page-routes.ts");
    return () => ({ operator: { files: pageRoutes() } });
  },
};
