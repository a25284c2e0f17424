import { canHold, type HeldLock, isHeldBy } from "../../rules/transactions.ts";
import type { OperationTable } from "../transaction.ts";

/** Locks of background services, in memory: one file belongs to one process, so a lock ends with it. */
export class Locks implements OperationTable<"holdLock"> {
  readonly #locks = new Map<string, HeldLock>();

  holdLock(now: number, name: string, owner: string, forMs: number): boolean {
    if (!canHold(this.#locks.get(name), owner, now)) return false;
    this.#locks.set(name, { owner, heldUntil: now + forMs });
    return true;
  }

  isHeld(name: string, owner: string, now: number): boolean {
    return isHeldBy(this.#locks.get(name), owner, now);
  }
}
