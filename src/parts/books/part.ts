import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";
import { BOOKS } from "./store/module.ts";

/** The books: every movement of money, and the sums of days. */
export const part: Part = {
  async load() {
    return ({ store }) => ({
      operator: {
        async loadApi() {
          const { listMovements, sumMovements } = await import("./operator.ts");
          const books = store.of(BOOKS);
          return {
            methods: {
              listMovements: (request) => listMovements(request, books),
              sumMovements: (request) => sumMovements(request, books, systemClock),
            },
          };
        },
      },
    });
  },
};
