/** Bounds how many streams are open, in all and for one call. */
export interface StreamSlots {
  /** Takes a slot until `closed` aborts. @returns false when there is none, or nobody to stream to any more */
  take(callId: number, closed: AbortSignal): boolean;
}

export function createStreamSlots({ max, maxPerCall }: { max: number; maxPerCall: number }): StreamSlots {
  const openByCall = new Map<number, number>();
  let open = 0;

  function add(callId: number, change: 1 | -1): void {
    open += change;
    const ofCall = (openByCall.get(callId) ?? 0) + change;
    if (ofCall === 0) openByCall.delete(callId);
    else openByCall.set(callId, ofCall);
  }

  return {
    take(callId, closed) {
      if (closed.aborted || open >= max || (openByCall.get(callId) ?? 0) >= maxPerCall) return false;
      add(callId, 1);
      closed.addEventListener("abort", () => add(callId, -1), { once: true });
      return true;
    },
  };
}
