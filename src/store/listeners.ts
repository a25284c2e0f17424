/** Those who want to know of something that happens; `News` is what they are told of it. */
export interface Listeners<News> {
  /** @returns a function that ends the subscription */
  add(listener: (news: News) => void): () => void;
  notify(news: News): void;
}

export function createListeners<News = void>(): Listeners<News> {
  const listeners = new Set<{ readonly listener: (news: News) => void }>();
  return {
    add(listener) {
      // An entry of its own, so that one function can be subscribed twice.
      const entry = { listener };
      listeners.add(entry);
      return () => void listeners.delete(entry);
    },
    notify(news) {
      for (const { listener } of listeners) listener(news);
    },
  };
}
