import type { Part } from "../../part.ts";
import { BOOKS } from "./store/module.ts";

/** The books of a period: every movement of money. */
export const part: Part = {
  async load() {
    return ({ store }) => ({
      operator: {
        async loadApi() {
          const { listMovements } = await import("./operator.ts");
          return { methods: { listMovements: (request) => listMovements(request, store.of(BOOKS)) } };
        },
      },
    });
  },
};
