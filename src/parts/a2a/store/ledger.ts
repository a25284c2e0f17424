/**
 * Tasks, identified by their nonces. The payment of a task uses up the task's nonce, which thereby links the task to its
 * JobCall.
 */
export interface TaskLedger {
  /** Finds the JobCall of a task: 0 if the task was cancelled; undefined if nothing has paid for it. */
  findTask(nonceKey: string): Promise<number | undefined>;
  /**
   * Assigns a JobCall that was bought earlier to a task, unless the task already has a JobCall.
   * @param expiresAt Unix seconds until which the task is kept
   */
  addTask(nonceKey: string, callId: number, expiresAt: number): Promise<void>;
}
