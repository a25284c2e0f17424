import { type Random, randomFrom } from "../../helpers/seeded-random.ts";

/** Items from which a recent one is chosen. */
const RECENT = 12;

/** Choices that a seed repeats. */
export class Choices {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  below(limit: number): number {
    return this.#random(limit);
  }

  /** Returns true in so many of 100 cases. */
  percent(cases: number): boolean {
    return this.#random(100) < cases;
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.#random(items.length)] as Item;
  }

  /** Returns one of the last items in most cases; undefined if there is none. */
  recent<Item>(items: readonly Item[]): Item | undefined {
    return this.one(this.percent(85) ? items.slice(-RECENT) : items);
  }

  /** Returns the value in so many of 100 cases, otherwise undefined. */
  maybe<Value>(cases: number, value: () => Value): Value | undefined {
    return this.percent(cases) ? value() : undefined;
  }

  /** Returns one of the items, each as often as its weight says. */
  weighted<Item>(items: readonly (readonly [weight: number, item: Item])[]): Item {
    let left = this.#random(items.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, item] of items) {
      if (left < weight) return item;
      left -= weight;
    }
    throw new Error("there is nothing to choose from");
  }
}
