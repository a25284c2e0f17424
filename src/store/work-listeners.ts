/** Those who want to know of new work. */
export interface WorkListeners {
  /** @returns a function that ends the subscription */
  add(listener: () => void): () => void;
  notify(): void;
}

export function createWorkListeners(): WorkListeners {
  const listeners = new Set<{ readonly listener: () => void }>();
  return {
    add(listener) {
      // An entry of its own, so that one function can be subscribed twice.
      const entry = { listener };
      listeners.add(entry);
      return () => void listeners.delete(entry);
    },
    notify() {
      for (const { listener } of listeners) listener();
    },
  };
}
