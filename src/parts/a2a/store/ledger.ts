/** Tasks, by what is unique in them. The payment of a task uses up the task's nonce, and so says which JobCall the task is. */
export interface TaskLedger {
  /** Finds the JobCall of a task: 0 if the task was cancelled; undefined if nothing has paid for it. */
  findTask(nonceKey: string): Promise<number | undefined>;
  /**
   * Makes a JobCall that was bought before the JobCall of a task, too, unless the task has one.
   * @param expiresAt Unix seconds until which the task is kept
   */
  addTask(nonceKey: string, callId: number, expiresAt: number): Promise<void>;
}
